"""The exchanges that can be read: one folder per venue, and the kit that all of them share."""
