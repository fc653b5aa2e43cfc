"""Sandboxes on this machine: bubblewrap, one host user and one folder a thread.

The only package that knows bubblewrap, seccomp and cgroups. `provider.LocalProvider` is what the registry makes; the
other modules are one thing each:

- before: `settings` (what an operator may set), `ground` (what is found out about the machine), `host` (what of it is
  shown), `python` and `runtime` (the programs that are run), `reach` (may that user get there), `probe` (a first jail);
- a jail: `jail` (bubblewrap's arguments), `bpf`, `syscalls` and `seccomp` (the filter), `contents` (its files),
  `launch`, `process` and `stream` (start, end and line), `confinement` (a jail, or none);
- without one: `mapping` (paths), `strays` and `processes` (the end);
- whose: `users` and `folders` (who owns which thread's files), `hierarchy` and `cgroup` (limits of a whole sandbox);
- a sandbox: `sandbox`, `facts` (what is in force).
"""
