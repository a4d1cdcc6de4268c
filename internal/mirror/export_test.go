package mirror

import (
	"encoding/binary"
	"hash/crc32"
)

// OtherVersion changes a file's content to what a later program might write.
func OtherVersion(b []byte) []byte {
	b = append([]byte(nil), b...)
	for _, off := range []int{0, slotSpace} {
		if len(b) < off+slotSize {
			break
		}
		slot := b[off : off+slotSize]
		binary.LittleEndian.PutUint32(slot[8:], formatVersion+1)
		binary.LittleEndian.PutUint32(slot[slotSize-4:], crc32.Checksum(slot[:slotSize-4], crcTable))
	}
	return b
}
