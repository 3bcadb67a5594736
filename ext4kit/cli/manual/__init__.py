"""The commands' help as manual pages and as a page of the documentation.

`python -m ext4kit.cli.manual share FOLDER` writes a manual page for each command and the scripts
of the shells' completion, in the places that an installation has for them below `share`;
`python -m ext4kit.cli.manual markdown FOLDER` the reference of commands and of JSON records.
"""
