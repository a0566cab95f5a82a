"""What followed the revealed stances, beside what followed anyway."""
