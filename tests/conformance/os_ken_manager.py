"""os-ken's manager, whose SCTP checksums are those of RFC 4960.

os-ken 3.1.1 computes the CRC over the text that Python 3 prints for a byte array. Its tester
expects the checksums of frames to be computed in this way, which no switch does. The arguments are
those of `osken-manager`.
"""

import struct
import sys

from os_ken.cmd.manager import main
from os_ken.lib.packet import sctp


def table_entry(byte):
    """The CRC32c of one byte, without the inversions."""
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [table_entry(byte) for byte in range(256)]


def checksum(self, data):
    """The CRC32c of `data`, in the byte order that `sctp.serialize` writes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return struct.unpack(">I", struct.pack("<I", ~crc & 0xFFFFFFFF))[0]


sctp.sctp._checksum = checksum
sys.exit(main())
