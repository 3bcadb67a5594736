"""A case: many images, what is done with each of their volumes, and what was found.

The folder of a case has a ledger, which tells the state of each job; a folder for each job that is
done; and a database of what all of them found. A job is one run of a command of this program, in a
process of its own.
"""
