package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/skerry-ft/skerry/internal/perhost"
)

// opcode is the first byte of a command.
type opcode uint8

// PyTorch's commands: what follows the byte → what is answered. A key and a
// blob are a uint64 length and the bytes; keys are a uint64 count and so many
// keys. Everything is little-endian.
const (
	opValidate   opcode = 0  // uint32 magic → nothing
	opSet        opcode = 1  // key, blob → nothing
	opCompareSet opcode = 2  // key, blob expected, blob desired → blob
	opGet        opcode = 3  // key → blob, empty if absent
	opAdd        opcode = 4  // key, int64 → int64
	opCheck      opcode = 5  // keys → uint8
	opWait       opcode = 6  // keys → uint8, when all are there
	opNumKeys    opcode = 7  // nothing → int64
	opDelete     opcode = 8  // key → int64
	opAppend     opcode = 9  // key, blob → nothing
	opMultiGet   opcode = 10 // keys → as many blobs
	opMultiSet   opcode = 11 // uint64 count, then key and blob each → nothing
	opCancelWait opcode = 12 // nothing → uint8
	opPing       opcode = 13 // uint32 → the same
	opPush       opcode = 14 // key, blob → nothing
	opPop        opcode = 15 // key → int64 length before; blob if that was not 0
	opLen        opcode = 16 // key → int64
)

// Our own commands, far from what PyTorch may add next.
const (
	// opAuth: 16 bytes of nonce, 32 of token id. The server answers one
	// status byte; after authChallenge 16 bytes of its nonce and its proof;
	// then the client sends its proof, and the server answers authAccepted.
	opAuth opcode = 0xE0
	// opDeletePrefix: a prefix as a key; the answer is an int64, the number
	// of keys and queues deleted.
	opDeletePrefix opcode = 0xE1
)

const (
	// validateMagic follows the first command of every connection.
	validateMagic uint32 = 0x3C85F7CE
	// initKey counts the workers; it alone has no slash before it.
	initKey = "init/"
	// keySlash is what PyTorch's clients put before every key.
	keySlash = "/"

	answerReady    = 0 // to opCheck: all there
	answerNotReady = 1
	answerStop     = 0 // to opWait: all there (STOP_WAITING)
	answerCanceled = 1 // to opCancelWait (WAIT_CANCELED)

	authOpen      = 0 // to opAuth: anybody may do anything here
	authChallenge = 1
	authRefused   = 2
	authAccepted  = 3
	authTLS       = 4 // to whatever a plain client says where TLS is spoken
)

// command is one request, decoded.
type command struct {
	op     opcode
	keys   []string // all that it names
	values [][]byte // of opCompareSet the expected one, then the desired one
	delta  int64
	nonce  uint32 // of opPing; the magic of opValidate
	auth   authRequest
}

// errProtocol is what a peer did that the protocol does not allow.
var errProtocol = errors.New("protocol broken")

// decoder reads what a peer sends. Nothing it is told is believed: memory
// grows with the bytes that came, not with the lengths that were announced.
type decoder struct {
	r     *bufio.Reader
	spent int // bytes of keys and values of this command

	// purse is what the commands that are being read or carried out hold together:
	// many connections that each announce little must not fill the memory either.
	// nil: no limit.
	purse *perhost.Counter
	host  netip.Addr // for which it is counted
	held  int64      // taken out of purse for this command
}

// take is for n bytes of memory that are about to be made.
func (d *decoder) take(n int) error {
	if d.purse == nil {
		return nil
	}
	if err := d.purse.Take(d.host, int64(n)); err != nil {
		return fmt.Errorf("%w: the commands under way hold too much: %w", ErrTooLarge, err)
	}
	d.held += int64(n)
	return nil
}

// give gives back n bytes that are no longer held.
func (d *decoder) give(n int) {
	if d.purse != nil {
		d.purse.Give(d.host, int64(n))
		d.held -= int64(n)
	}
}

// done gives back what a command took.
func (d *decoder) done() { d.give(int(d.held)) }

// command reads one command. io.EOF means that the peer left between two.
func (d *decoder) command() (command, error) {
	op, err := d.r.ReadByte()
	if err != nil {
		return command{}, err
	}
	d.spent = 0
	c := command{op: opcode(op)}
	if err := d.body(&c); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return command{}, fmt.Errorf("command %d: %w", op, err)
	}
	return c, nil
}

func (d *decoder) body(c *command) (err error) {
	switch c.op {
	case opNumKeys, opCancelWait:
		return nil
	case opValidate, opPing:
		c.nonce, err = d.uint32()
		return err
	case opCheck, opWait, opMultiGet:
		return d.list(c, 0)
	case opMultiSet:
		return d.list(c, 1)
	case opAuth:
		return d.full(c.auth.nonce[:], c.auth.id[:])
	case opGet, opDelete, opPop, opLen, opDeletePrefix:
		return d.entry(c, 0)
	case opSet, opAppend, opPush:
		return d.entry(c, 1)
	case opCompareSet:
		return d.entry(c, 2)
	case opAdd:
		if err = d.entry(c, 0); err == nil {
			c.delta, err = d.int64()
		}
		return err
	}
	return fmt.Errorf("%w: unknown command", errProtocol)
}

// entry reads a key and so many values.
func (d *decoder) entry(c *command, values int) error {
	key, err := d.key()
	if err != nil {
		return err
	}
	c.keys = append(c.keys, key)
	for range values {
		value, err := d.bytes()
		if err != nil {
			return err
		}
		c.values = append(c.values, value)
	}
	return nil
}

// list reads a count and so many entries.
func (d *decoder) list(c *command, values int) error {
	n, err := d.uint64()
	if err != nil {
		return err
	}
	if n > MaxKeys {
		return fmt.Errorf("%w: %d keys, want at most %d", errProtocol, n, MaxKeys)
	}
	for range n {
		if err := d.take(elementBytes); err != nil {
			return err
		}
		if err := d.entry(c, values); err != nil {
			return err
		}
	}
	return nil
}

// elementBytes is what a key and a value of a list cost beside their bytes: the
// lists grow by doubling.
const elementBytes = 128

func (d *decoder) key() (string, error) {
	b, err := d.blob(MaxKeyBytes)
	return string(b), err
}

func (d *decoder) bytes() ([]byte, error) { return d.blob(MaxValueBytes) }

// blob reads a length and as many bytes.
func (d *decoder) blob(most uint64) ([]byte, error) {
	n, err := d.uint64()
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, fmt.Errorf("%w: %d bytes announced, want at most %d", errProtocol, n, most)
	}
	if d.spent += int(n); d.spent > MaxCallBytes {
		return nil, fmt.Errorf("%w: command of over %d bytes", errProtocol, MaxCallBytes)
	}
	const chunk = 64 << 10
	var b []byte
	for have := 0; have < int(n); have = len(b) {
		size := min(int(n), max(2*have, chunk))
		if err := d.take(size); err != nil {
			return nil, err
		}
		more := make([]byte, size)
		copy(more, b)
		b = more
		d.give(have) // the shorter one, which the collector has now
		if err := d.full(b[have:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (d *decoder) full(parts ...[]byte) error {
	for _, p := range parts {
		if _, err := io.ReadFull(d.r, p); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) uint8() (uint8, error) { return d.r.ReadByte() }

func (d *decoder) uint32() (uint32, error) {
	var b [4]byte
	err := d.full(b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

func (d *decoder) uint64() (uint64, error) {
	var b [8]byte
	err := d.full(b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

func (d *decoder) int64() (int64, error) {
	n, err := d.uint64()
	return int64(n), err
}

// The encoders append to b.

func appendUint32(b []byte, n uint32) []byte { return binary.LittleEndian.AppendUint32(b, n) }
func appendUint64(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

func appendBlob[T string | []byte](b []byte, v T) []byte {
	return append(appendUint64(b, uint64(len(v))), v...)
}

// appendKey appends a key as PyTorch's clients do, with its slash.
func appendKey(b []byte, key string) []byte {
	b = appendUint64(b, uint64(len(keySlash)+len(key)))
	return append(append(b, keySlash...), key...)
}

func appendKeys(b []byte, keys []string) []byte {
	b = appendUint64(b, uint64(len(keys)))
	for _, key := range keys {
		b = appendKey(b, key)
	}
	return b
}
