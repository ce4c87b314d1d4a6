"""The links of the log, by hand: those that are kept must be found again for ever."""

import struct
from hashlib import blake2b

from keyhole.service.store.log.chain import FIRST, make_link
from keyhole.service.store.sql.schema import feedback, open_rounds


def text(content: bytes) -> bytes:
    return struct.pack("<cq", b"s", len(content)) + content


def test_a_link_is_a_hash_of_the_link_before_and_of_every_column_in_turn() -> None:
    row = {"stream": 3, "version": 9, "number": 7, "at": 1.5, "answer": '"hit"', "weight": 1.0}
    row |= {"miss": 0.0, "score": None, "size": 2.0, "link": b"not part of it"}
    parts = [
        *(b"before", struct.pack("<cq", b"q", 3), struct.pack("<cq", b"q", 9)),
        *(struct.pack("<cq", b"q", 7), struct.pack("<cd", b"d", 1.5), text(b'"hit"')),
        *(struct.pack("<cd", b"d", 0.0), struct.pack("<cd", b"d", 1.0), b"-"),
        struct.pack("<cd", b"d", 2.0),
    ]
    expected = blake2b(b"".join(parts), digest_size=16, person=b"feedback").digest()
    assert make_link(b"before", feedback, row) == expected


def test_bytes_are_told_apart_by_their_length_and_missing_ones_from_empty_ones() -> None:
    row = {"stream": 1, "number": 0, "expires": 5.0, "then": 0, "memo": b""}
    links = {make_link(FIRST, open_rounds, {**row, "memo": memo}) for memo in (b"", b"-", None, b"--")}
    assert len(links) == 4


def test_a_zero_has_no_sign_and_a_whole_number_in_a_column_of_floats_is_one() -> None:
    row = {"stream": 1, "number": 0, "expires": 0.0, "then": 0, "memo": b""}
    same = [make_link(FIRST, open_rounds, {**row, "expires": zero}) for zero in (0.0, -0.0, 0)]
    assert len(set(same)) == 1


def test_the_first_link_has_nothing_before_it() -> None:
    assert FIRST == b""
