"""The help of all commands as manual pages and as pages of the documentation.

`python -m ext4kit.cli.manual share FOLDER` writes a manual page for each command and the completion
scripts of the shells, below `share` in the layout of an installation.
`python -m ext4kit.cli.manual markdown FOLDER` writes the reference of commands and JSON records.
"""
