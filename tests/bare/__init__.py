"""The project in a bare Debian system, as somebody finds it who has just cloned it."""
