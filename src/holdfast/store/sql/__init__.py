"""
What the stores on SQL servers share.

The rules of a commit are decided here, in Python, over what a dialect read (``decide``); commits
are grouped (``groups``), read back (``reads``, ``rows``), deleted and forked in slices (``whole``),
and watched (``polling``). A dialect brings its named queries and migrations, its driver, and the
kernel that writes a group.
"""
