package gossiphead

import (
	"bufio"
	"strings"
	"testing"
)

// TestGossipHead: memberlist's own head of a pool is let in; one that announces more
// than there may be is not, however it is written.
func TestGossipHead(t *testing.T) {
	t.Parallel()
	const rest = "\xacUserStateLen\x00\xa4Join\xc2"
	for text, want := range map[string]string{
		"\x83\xa5Nodes\x03" + rest:                                      "",
		"\x83\xa4Join\xc3\xa5Nodes\xcd\x04\x00\xacUserStateLen\xd0\x00": "",
		"\x83\xa5Nodes\xcd\x04\x01" + rest:                              "Nodes = 1025, want at most 1024",
		"\x83\xa5Nodes\xce\x00\x10\x00\x00" + rest:                      "Nodes = 1048576",
		"\x83\xa5Nodes\xd3\xff\xff\xff\xff\xff\xff\xff\xff" + rest:      "malformed",
		"\x83\xa5Nodes\x01\xacUserStateLen\x01\xa4Join\xc2":             "UserStateLen = 1, want at most 0",
		"\x83\xa5Nodes\x01\xa5Nodes\xcd\x7f\xff\xa4Join\xc2":            "malformed",
		"\x84\xa5Nodes\x01" + rest + "\xa5Nodes\x7f":                    "malformed",
		"\x83\xa5Nodes\xcb\x41\xd0\x00\x00\x00\x00\x00\x00" + rest:      "malformed",
		"\xde\x00\x03\xa5Nodes\x01" + rest:                              "malformed",
		"\x83\xa5Node":                                                  "EOF",
	} {
		h := head{from: bufio.NewReaderSize(strings.NewReader(text), 512)}
		if err := h.pool(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
