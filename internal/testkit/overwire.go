package testkit

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// OverWire is what a peer reads of a message that is sent: read, filled in.
func OverWire[M proto.Message](t testing.TB, sent proto.Message, read M) M {
	t.Helper()
	data, err := proto.Marshal(sent)
	if err == nil {
		err = proto.Unmarshal(data, read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}
