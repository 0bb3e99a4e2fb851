package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// The file is a log: a magic number, then frames
//
//	uint32 length of the body · uint32 CRC32C of the body · body
//
// little-endian. A body is a list of records, and takes effect as a whole. A
// frame that is cut short at the end of the file is what a process left that
// died while it wrote; the next writer cuts it off.
const (
	fileMagic   = "skerry-store-1\r\n"
	frameHeader = 8
	// maxFileBytes bounds the log: it only grows.
	maxFileBytes = 4 << 30
	// maxFrameBytes bounds a body: one call and its overhead.
	maxFrameBytes = MaxCallBytes + MaxKeys*recordOverhead
	// recordOverhead is what a record has beyond its key and value.
	recordOverhead = 1 + 8 + 8
)

// recordKind is the first byte of a record; a key and a value follow.
type recordKind uint8

const (
	recOpened       recordKind = 1 // a process opened the file
	recLeft         recordKind = 2 // a process closed it
	recSet          recordKind = 3
	recDelete       recordKind = 4
	recAppend       recordKind = 5
	recPush         recordKind = 6
	recPop          recordKind = 7
	recDeletePrefix recordKind = 8
	recCount        recordKind = 9 // what Add made of a key
)

type record struct {
	kind  recordKind
	key   string
	value []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCorrupt is a log that no crash explains.
var errCorrupt = errors.New("file is corrupt")

// fileLog is the open file and what has been read of it. Owned by one
// goroutine at a time, which holds a file lock for every call.
type fileLog struct {
	f      *os.File
	view   *table
	offset int64 // how far view has it
	opened int
	left   int
}

// refresh reads what others have written.
func (l *fileLog) refresh() error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() <= l.offset {
		return nil
	}
	r := bufio.NewReader(io.NewSectionReader(l.f, l.offset, info.Size()-l.offset))
	if l.offset == 0 {
		if err := l.magic(r); err != nil || l.offset == 0 {
			return err
		}
	}
	for l.offset < info.Size() {
		whole, err := l.frame(r, info.Size()-l.offset)
		if err != nil || !whole {
			return err
		}
	}
	return nil
}

func (l *fileLog) magic(r io.Reader) error {
	var b [len(fileMagic)]byte
	n, err := io.ReadFull(r, b[:])
	switch {
	case err != nil && bytes.Equal(b[:n], []byte(fileMagic[:n])):
		return nil // cut short: as good as empty
	case err != nil || string(b[:]) != fileMagic:
		return fmt.Errorf("%w: it does not begin as a store's file", errCorrupt)
	}
	l.offset = int64(n)
	return nil
}

// frame reads one frame, of which there are at most left bytes; it is not
// whole if its writer died.
func (l *fileLog) frame(r io.Reader, left int64) (whole bool, err error) {
	var head [frameHeader]byte
	if left < frameHeader {
		return false, nil
	}
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return false, err
	}
	n := int64(binary.LittleEndian.Uint32(head[:4]))
	sum := binary.LittleEndian.Uint32(head[4:])
	if n > maxFrameBytes {
		return false, fmt.Errorf("%w: frame of %d bytes at %d, want at most %d", errCorrupt, n, l.offset, maxFrameBytes)
	}
	if left < frameHeader+n {
		return false, nil
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return false, err
	}
	if crc32.Checksum(body, castagnoli) != sum {
		if left == frameHeader+n {
			return false, nil // the length was written, not all of the body
		}
		return false, fmt.Errorf("%w: checksum of the frame at %d does not fit", errCorrupt, l.offset)
	}
	records, err := decodeRecords(body)
	if err != nil {
		return false, fmt.Errorf("frame at %d: %w", l.offset, err)
	}
	if err := l.apply(records); err != nil {
		return false, err
	}
	l.offset += frameHeader + n
	return true, nil
}

// commit writes records at the end, and applies them.
func (l *fileLog) commit(records ...record) error {
	b := make([]byte, frameHeader)
	if l.offset == 0 {
		b = append([]byte(fileMagic), b...)
	}
	start := len(b)
	b = encodeRecords(b, records)
	body := b[start:]
	if n := l.offset + int64(len(b)); n > maxFileBytes {
		return fmt.Errorf("%w: file would have %d bytes, want at most %d", ErrTooLarge, n, int64(maxFileBytes))
	}
	binary.LittleEndian.PutUint32(b[start-frameHeader:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start-frameHeader+4:], crc32.Checksum(body, castagnoli))
	// What a dead writer left behind our offset goes first: a shorter frame of
	// ours must not be followed by the rest of its longer one.
	if err := l.f.Truncate(l.offset); err != nil {
		return err
	}
	if _, err := l.f.WriteAt(b, l.offset); err != nil {
		return errors.Join(err, l.f.Truncate(l.offset))
	}
	if err := l.apply(records); err != nil {
		return err
	}
	l.offset += int64(len(b))
	return nil
}

// apply carries records out on the view.
func (l *fileLog) apply(records []record) error {
	for _, r := range records {
		var err error
		switch r.kind {
		case recOpened:
			l.opened++
		case recLeft:
			l.left++
		case recSet:
			err = l.view.set(r.key, r.value)
		case recCount:
			err = l.view.count(r.key, r.value)
		case recDelete:
			_, err = l.view.remove(r.key)
		case recAppend:
			err = l.view.append(r.key, r.value)
		case recPush:
			err = l.view.push(r.key, r.value)
		case recPop:
			_, _, err = l.view.pop(r.key)
		case recDeletePrefix:
			_, err = l.view.removePrefix(r.key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func encodeRecords(b []byte, records []record) []byte {
	for _, r := range records {
		b = appendBlob(appendBlob(append(b, byte(r.kind)), r.key), r.value)
	}
	return b
}

func decodeRecords(body []byte) ([]record, error) {
	var records []record
	d := decoder{r: bufio.NewReader(bytes.NewReader(body))}
	for {
		kind, err := d.uint8()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		r := record{kind: recordKind(kind)}
		if r.kind < recOpened || r.kind > recCount {
			return nil, fmt.Errorf("%w: unknown record %d", errCorrupt, kind)
		}
		if r.key, err = d.key(); err == nil {
			r.value, err = d.bytes()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCorrupt, err)
		}
		records = append(records, r)
	}
}
