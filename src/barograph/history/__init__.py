"""The append-only record: digests, ledger, guards, Merkle tree, checkpoints and proofs."""
