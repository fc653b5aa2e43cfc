"""A LangGraph agent that does a real piece of work in a sandbox: `python -m sandgate_agent.demo`.

It is an example as well: `work` builds and runs the agent, `scripted` is the model that plays a fixed part when no real
one is named, `survey` is the program that the scripted model writes into the sandbox and runs there. Nothing imports
this package.
"""
