package nccl

import (
	"crypto/rand"
	"testing"

	"github.com/ebitengine/purego"
)

// Structs go by value as C takes them, to the last byte, and so does what stands
// around them. The fake libraries do not look at all of an id.
func TestByValue(t *testing.T) {
	lib, err := openObject("by value", []string{build(t, "byvalue.so", "testdata/fake/byvalue.c")})
	if err != nil {
		t.Fatal(err)
	}
	var init func(c *uintptr, n int32, id idByValue, rank int32, config *UniqueID) int32
	var openMemory func(p **IPCHandle, h ipcHandleByValue, flags uint32) int32
	var openEvent func(p **IPCHandle, h ipcHandleByValue) int32
	for symbol, f := range map[string]any{"like_init": &init, "like_open_mem": &openMemory, "like_open_event": &openEvent} {
		purego.RegisterLibFunc(f, lib.handle, symbol)
	}
	for range 100 {
		var id, gotID UniqueID
		var h IPCHandle
		rand.Read(id[:])
		rand.Read(h[:])
		var c uintptr
		if code := init(&c, 5, idByValue{id}, 3, &gotID); code != 7 || c != 5<<32|3 || gotID != id {
			t.Fatalf("id by value: code %d, comm %#x, bytes the same: %v; want 7, 0x500000003, true", code, c, gotID == id)
		}
		got := new(IPCHandle)
		if code := openMemory(&got, ipcHandleByValue{h}, 6); code != 6 || *got != h {
			t.Fatalf("handle of memory by value: code %d, bytes the same: %v; want 6, true", code, *got == h)
		}
		*got = IPCHandle{}
		if code := openEvent(&got, ipcHandleByValue{h}); code != 9 || *got != h {
			t.Fatalf("handle of an event by value: code %d, bytes the same: %v; want 9, true", code, *got == h)
		}
	}
}
