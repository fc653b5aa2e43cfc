"""How settings are read: one YAML file and the environment, with the place of every mistake.

`settings.py` beside this package says which settings there are; here is how they are found, read and complained about.
Nothing in here starts anything. Used by the command line and by whoever puts the gateway together.
"""
