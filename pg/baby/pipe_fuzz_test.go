package baby

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// pipeOf is a pipe, and the other side's socket.
func pipeOf(t *testing.T) (*pipe, *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	p, err := newPipe(ours)
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	t.Cleanup(func() {
		theirs.Close()
		p.close()
		p.wait()
	})
	if err := p.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return p, theirs
}

// framed is messages as they go over the socket.
func framed(messages ...[]byte) []byte {
	var out []byte
	for _, m := range messages {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(m))), m...)
	}
	return out
}

// FuzzPipe writes anything to the socket, in pieces of any length, with descriptors
// that nobody asked for: what is received is what was framed, the first length out
// of bounds ends it, and no memory is taken for what has only been announced.
func FuzzPipe(f *testing.F) {
	f.Add(framed([]byte("one"), []byte{0}, bytes.Repeat([]byte("x"), 1000)), 3, 0, false)
	f.Add(framed([]byte("one"))[:5], 1, 2, true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 4, 1, false)
	f.Add([]byte{0, 0, 0, 0, 1}, 2, 0, false)
	f.Add([]byte{0, 0, 0, 4}, 9, 3, true)
	f.Fuzz(func(t *testing.T, text []byte, piece, files int, noFiles bool) {
		text = text[:min(len(text), 32<<10)]
		piece, files = max(1, piece%(64<<10)), max(0, files)%4
		p, theirs := pipeOf(t)
		p.noFiles = noFiles
		fd := int(theirs.Fd())
		sent, passed := 0, 0
		for rest := text; len(rest) > 0; {
			var rights []byte
			if passed < files {
				rights = syscall.UnixRights(fd)
				passed++
			}
			n, err := syscall.SendmsgN(fd, rest[:min(piece, len(rest))], rights, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
			sent += max(n, 0)
			rest = rest[max(n, 0):]
			if err != nil {
				break // the socket is full: what it took is what the other side said
			}
			if sent > 0 && piece < 16 && sent > 64*piece {
				piece = 1 << 10 // a socket takes only so many small pieces
			}
		}
		text = text[:sent]
		if err := syscall.Shutdown(fd, syscall.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		for at := 0; ; {
			got, err := p.receive()
			var n int
			if len(text)-at >= headerBytes {
				n = int(binary.LittleEndian.Uint32(text[at:]))
			}
			switch {
			case err == nil:
				if n != len(got) || !bytes.Equal(got, text[at+headerBytes:at+headerBytes+n]) {
					t.Fatalf("received %d bytes at %d of %d, want %d", len(got), at, len(text), n)
				}
				at += headerBytes + n
				continue
			case errors.Is(err, errFiles) && noFiles && passed > 0:
			case errors.Is(err, io.EOF):
				if n >= 1 && n <= maxMessageBytes && len(text)-at >= headerBytes+n {
					t.Fatalf("a message of %d bytes was there, and the end came", n)
				}
			case len(text)-at >= headerBytes && (n < 1 || n > maxMessageBytes):
			default:
				t.Fatalf("at %d of %d: %v", at, len(text), err)
			}
			break
		}
		if most := 2*len(text) + 2*readBufferBytes; cap(p.in) > most {
			t.Fatalf("%d bytes are held of the %d that came", cap(p.in), len(text))
		}
		if len(p.files) > passed || noFiles && len(p.files) > 0 {
			t.Fatalf("%d descriptors are held of the %d that came", len(p.files), passed)
		}
	})
}
