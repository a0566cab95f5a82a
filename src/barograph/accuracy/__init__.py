"""What followed the revealed stances: one label beside the others, by episodes."""
