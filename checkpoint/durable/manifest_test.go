package durable

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/quorum"
)

func someManifest() manifest {
	return manifest{
		position: quorum.Position{Cluster: "c<1>", Step: 12, QuorumID: 3}, batches: 36, participants: 3, at: shard{rank: 1, size: 2},
		files: []file{{Name: fileName(0), SizeBytes: 100, SHA256: [32]byte{1}}, {Name: fileName(1), SizeBytes: 7, SHA256: [32]byte{2}}},
		meta:  map[string]string{"model/lr": "0.1", "model/text": "\u2028<&>\"\\\n", "": ""},
	}
}

func TestManifestComesBack(t *testing.T) {
	t.Parallel()
	m := someManifest()
	text, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeManifest(bytes.NewReader(text))
	if err != nil || !reflect.DeepEqual(*got, m) {
		t.Errorf("%+v, %v, want %+v", got, err, m)
	}
	for i := range text {
		for _, bit := range []byte{1, 0x20} {
			bad := bytes.Clone(text)
			bad[i] ^= bit
			if got, err := decodeManifest(bytes.NewReader(bad)); err == nil && !reflect.DeepEqual(*got, m) || err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("byte %d flipped: %+v, %v", i, got, err)
			}
		}
		if _, err := decodeManifest(bytes.NewReader(text[:i])); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("cut at %d: %v, want ErrCorrupt", i, err)
		}
	}
}

func TestManifestBounds(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*manifest){
		"step = 0, want 1":                     func(m *manifest) { m.position.Step = 0 },
		"step = 9007199254740993":              func(m *manifest) { m.position.Step = 1<<53 + 1 },
		"quorum_id = -1":                       func(m *manifest) { m.position.QuorumID = -1 },
		"cluster has 65 bytes":                 func(m *manifest) { m.position.Cluster = strings.Repeat("c", 65) },
		"batches_committed = -1":               func(m *manifest) { m.batches = -1 },
		"group_rank = 2, want 0 to 1":          func(m *manifest) { m.at.rank = 2 },
		"group_world_size = 0, want 1":         func(m *manifest) { m.at.size = 0 },
		"key of 2049 bytes, want at most 2048": func(m *manifest) { m.meta[strings.Repeat("k", 2049)] = "" },
		"has 1048577 bytes, want at most":      func(m *manifest) { m.meta["long"] = strings.Repeat("v", maxMetaBytes+1) },
		"manifest has": func(m *manifest) {
			for i := range 20 {
				m.meta[fmt.Sprint(i)] = strings.Repeat("v", maxMetaBytes)
			}
		},
		"is not UTF-8": func(m *manifest) { m.meta["k"] = "\xff" },
	} {
		m := someManifest()
		spoil(&m)
		if _, err := m.encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	long := someManifest()
	long.meta[strings.Repeat("\x01", maxMetaKeyBytes)] = strings.Repeat("\x01", maxMetaBytes) // six bytes each in JSON
	text, err := long.encode()
	if err == nil {
		_, err = decodeManifest(bytes.NewReader(text))
	}
	if err != nil {
		t.Errorf("the longest key and value: %v", err)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	at := titleOf(quorum.Position{Step: 12, QuorumID: 3}, "näme/x:"+strings.Repeat("u", 140))
	if len(at.writer) != maxWriterBytes || CheckName(at.String()) != nil {
		t.Errorf("title %q", at)
	}
	p, ok := parsePlace(at.String() + "/" + shard{rank: 1, size: 2}.folder() + "/" + manifestName)
	if !ok || p != (place{at, shard{1, 2}, manifestName}) {
		t.Errorf("place %+v, %t", p, ok)
	}
	for _, name := range []string{
		"", "a", "notes.txt", "x/y/z", at.String(), at.String() + "/manifest.json", at.String() + "/00002-of-00002/a",
		strings.Replace(at.String(), "12-", "00-", 1) + "/00000-of-00001/a", at.String() + "/00000-of-00001/a/b", at.String() + "/0-of-1/a",
	} {
		if p, ok := parsePlace(name); ok {
			t.Errorf("%q is %+v", name, p)
		}
	}
}

// FuzzManifest: whatever a file holds, what is accepted is within the bounds, and is what
// encode writes of it.
func FuzzManifest(f *testing.F) {
	m := someManifest()
	text, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, false)
	inner, err := unseal(bytes.NewReader(text))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(inner), true)
	f.Add([]byte(`{"version":1,"step":1,"group_world_size":1,"meta":null,"files":[]}`), true)
	f.Add([]byte(`{"version":2}`), true)
	f.Fuzz(func(t *testing.T, data []byte, inside bool) {
		if inside { // a text that has its digest
			data = sealed(data)
		}
		got, err := decodeManifest(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, errVersion) {
				t.Fatalf("%v, want ErrCorrupt", err)
			}
			return
		}
		again, err := got.encode()
		if err != nil {
			t.Fatalf("accepted, and cannot be written: %v", err)
		}
		back, err := decodeManifest(bytes.NewReader(again))
		if err != nil || !reflect.DeepEqual(got, back) {
			t.Fatalf("%+v came back as %+v, %v", got, back, err)
		}
	})
}
