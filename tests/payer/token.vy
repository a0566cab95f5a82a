# pragma version 0.4.3
"""
@title  Dollars of a chain for tests
@notice Balances move only by EIP-3009 authorizations, which holders sign and anybody may bring in.
        They are given at genesis. The words of a refusal are those by which a facilitator knows it.
"""

event Transfer:
    sender: indexed(address)
    receiver: indexed(address)
    amount: uint256

event AuthorizationUsed:
    authorizer: indexed(address)
    nonce: indexed(bytes32)

name: public(constant(String[4])) = "USDC"
version: public(constant(String[1])) = "2"
decimals: public(constant(uint8)) = 6

balanceOf: public(HashMap[address, uint256])
authorizationState: public(HashMap[address, HashMap[bytes32, bool]])

DOMAIN: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
AUTHORIZATION: constant(bytes32) = keccak256(
    "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)
# Half of the curve's order: of the two signatures that fit, only the lower one counts.
HIGHEST_S: constant(bytes32) = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0


@external
@view
def DOMAIN_SEPARATOR() -> bytes32:
    return self._domain_separator()


@external
def transferWithAuthorization(
    sender: address,
    receiver: address,
    amount: uint256,
    valid_after: uint256,
    valid_before: uint256,
    nonce: bytes32,
    v: uint8,
    r: bytes32,
    s: bytes32,
):
    assert block.timestamp > valid_after, "authorization is not yet valid"
    assert block.timestamp < valid_before, "authorization is expired"
    assert not self.authorizationState[sender][nonce], "authorization is used"
    content: bytes32 = keccak256(
        abi_encode(AUTHORIZATION, sender, receiver, amount, valid_after, valid_before, nonce)
    )
    digest: bytes32 = keccak256(concat(b"\x19\x01", self._domain_separator(), content))
    assert convert(s, uint256) <= convert(HIGHEST_S, uint256), "invalid signature"
    signer: address = ecrecover(digest, v, r, s)
    assert signer != empty(address) and signer == sender, "invalid signature"

    self.authorizationState[sender][nonce] = True
    log AuthorizationUsed(authorizer=sender, nonce=nonce)
    assert self.balanceOf[sender] >= amount, "transfer amount exceeds balance"
    self.balanceOf[sender] -= amount
    self.balanceOf[receiver] += amount
    log Transfer(sender=sender, receiver=receiver, amount=amount)


@internal
@view
def _domain_separator() -> bytes32:
    return keccak256(
        abi_encode(DOMAIN, keccak256(name), keccak256(version), chain.id, self)
    )
