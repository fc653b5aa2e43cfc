"""Sandboxes on this machine: bubblewrap, one host user and one folder a thread.

The only package that knows bubblewrap, seccomp and cgroups. `provider.LocalProvider` is what the registry makes; the
other modules are one mechanism each: `settings` (what an operator may set), `host` (what of this machine is shown),
`jail` (bubblewrap's arguments), `bpf`, `syscalls` and `seccomp` (the filter), `python` and `runtime` (the programs
that are run), `reach` (may that user get there), `users` and `folders` (who owns which thread's files), `cgroup` (limits
of a whole sandbox), `process` (start and end), `facts` (what is in force), `sandbox` (one that lives).
"""
