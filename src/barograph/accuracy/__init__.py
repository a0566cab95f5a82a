"""What followed the revealed stances, next to two baselines."""
