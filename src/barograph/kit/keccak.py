"""Keccak-256 as Ethereum uses it (pure).

`hashlib` has only the later SHA3-256, whose padding differs in one byte, so every hash differs.
"""

LANES = 25
ROUNDS = 24
RATE = 136  # bytes absorbed per permutation
DIGEST = 32
WORD = 0xFFFFFFFFFFFFFFFF


def keccak256(data: bytes) -> bytes:
    """The 32 bytes of Keccak-256 of `data`."""
    lanes = [0] * LANES
    padded = _padded(data)
    for start in range(0, len(padded), RATE):
        for lane in range(RATE // 8):
            offset = start + 8 * lane
            lanes[lane] ^= int.from_bytes(padded[offset : offset + 8], "little")
        lanes = _permuted(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[: DIGEST // 8])


def _padded(data: bytes) -> bytes:
    missing = RATE - len(data) % RATE
    if missing == 1:
        return data + b"\x81"
    return data + b"\x01" + bytes(missing - 2) + b"\x80"


def _permuted(lanes: list[int]) -> list[int]:
    for constant in ROUND_CONSTANTS:
        columns = [
            lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20]
            for x in range(5)
        ]
        mixed = [columns[x - 1] ^ _rotated(columns[(x + 1) % 5], 1) for x in range(5)]
        moved = [0] * LANES
        for source, target, turn in MOVES:
            moved[target] = _rotated(lanes[source] ^ mixed[source % 5], turn)
        lanes = [
            moved[row + x] ^ (~moved[row + (x + 1) % 5] & moved[row + (x + 2) % 5])
            for row in range(0, LANES, 5)
            for x in range(5)
        ]
        lanes[0] ^= constant
    return lanes


def _rotated(word: int, turn: int) -> int:
    return ((word << turn) | (word >> (64 - turn))) & WORD


def _moves() -> list[tuple[int, int, int]]:
    """Each lane's new place and rotation."""
    moves = [(0, 0, 0)]
    x, y = 1, 0
    for step in range(ROUNDS):
        target_x, target_y = y, (2 * x + 3 * y) % 5
        turn = (step + 1) * (step + 2) // 2 % 64
        moves.append((x + 5 * y, target_x + 5 * target_y, turn))
        x, y = target_x, target_y
    return moves


def _round_constants() -> list[int]:
    """The round constants, from the shift register that defines them."""
    constants = []
    register = 1
    for _ in range(ROUNDS):
        constant = 0
        for exponent in range(7):
            if register & 1:
                constant |= 1 << ((1 << exponent) - 1)
            register = (register << 1) ^ (0x171 * (register >> 7))
        constants.append(constant)
    return constants


MOVES = _moves()
ROUND_CONSTANTS = _round_constants()
