"""The commands' help as manual pages and as a page of the documentation.

`python -m ext4kit.cli.manual man FOLDER` writes a manual page for each command,
`python -m ext4kit.cli.manual markdown FOLDER` the reference of commands and of JSON records.
"""
