package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/quorum"
)

// formatVersion is that of manifests and of the names around them.
const formatVersion = 1

// What a manifest may hold, whatever wrote it.
const (
	// maxManifestBytes bounds a manifest.
	maxManifestBytes = 16 << 20
	// maxFiles bounds the files of one group rank's part of a checkpoint.
	maxFiles = 1e5 - 1
	// maxGroupWorldSize bounds the group ranks of a checkpoint.
	maxGroupWorldSize = 1e5 - 1
	// maxMeta bounds the entries of Meta of all parts of one group rank, maxMetaKeyBytes
	// a part's name and a key of it, and maxMetaBytes a value.
	maxMeta         = 1 << 16
	maxMetaKeyBytes = 2 << 10
	maxMetaBytes    = 1 << 20

	maxNumber       = 1 << 53 // of steps, ids and batches
	maxClusterBytes = 64
	maxWriterBytes  = 128
)

// file is one safetensors file of a checkpoint.
type file struct {
	Name      string // within the group rank's folder
	SizeBytes int64
	SHA256    [sha256.Size]byte
}

// manifest says what one group rank's part of a checkpoint is.
type manifest struct {
	position     quorum.Position
	batches      int64
	participants int // of the quorum, as the writer saw it
	at           shard
	files        []file
	meta         map[string]string // by "part/key"
}

// shard is a group rank's place in its replica.
type shard struct{ rank, size int }

// manifestJSON is a manifest as text. Maps are written with their keys in order.
type manifestJSON struct {
	Version        int               `json:"version"`
	Cluster        string            `json:"cluster"`
	Step           int64             `json:"step"`
	QuorumID       int64             `json:"quorum_id"`
	Batches        int64             `json:"batches_committed"`
	Participants   int               `json:"participants"`
	GroupRank      int               `json:"group_rank"`
	GroupWorldSize int               `json:"group_world_size"`
	Files          []fileJSON        `json:"files"`
	Meta           map[string]string `json:"meta"`
}

type fileJSON struct {
	Name      string `json:"name"`
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"`
}

// sealedJSON is the file: a manifest, and the SHA-256 of its text.
type sealedJSON struct {
	Manifest json.RawMessage `json:"manifest"`
	SHA256   string          `json:"sha256"`
}

// encode gives the manifest's file, which decodeManifest accepts.
func (m *manifest) encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	j := manifestJSON{
		Version: formatVersion, Cluster: m.position.Cluster, Step: m.position.Step, QuorumID: m.position.QuorumID,
		Batches: m.batches, Participants: m.participants, GroupRank: m.at.rank, GroupWorldSize: m.at.size,
		Files: make([]fileJSON, 0, len(m.files)), Meta: m.meta,
	}
	for _, f := range m.files {
		j.Files = append(j.Files, fileJSON{Name: f.Name, SizeBytes: f.SizeBytes, SHA256: hex.EncodeToString(f.SHA256[:])})
	}
	text, err := plainJSON(j)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	text, err = plainJSON(sealedJSON{Manifest: text, SHA256: hex.EncodeToString(sum[:])})
	if err == nil && len(text) > maxManifestBytes {
		err = fmt.Errorf("manifest has %d bytes, want at most %d", len(text), maxManifestBytes)
	}
	return text, err
}

// plainJSON is json.Marshal without HTML's escapes, so that a text within a text stays
// as it is.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// check returns all that is wrong with the numbers and sizes, joined.
func (m *manifest) check() error {
	var l problems.List
	problems.Within(&l, "step", m.position.Step, 1, maxNumber)
	problems.Within(&l, "quorum_id", m.position.QuorumID, 0, maxNumber)
	l.Short("cluster", len(m.position.Cluster), maxClusterBytes)
	problems.Within(&l, "batches_committed", m.batches, 0, maxNumber)
	problems.Within(&l, "participants", m.participants, 0, maxNumber)
	problems.Within(&l, "group_world_size", m.at.size, 1, maxGroupWorldSize)
	problems.Within(&l, "group_rank", m.at.rank, 0, m.at.size-1)
	problems.Within(&l, "files", len(m.files), 0, maxFiles)
	problems.Within(&l, "meta", len(m.meta), 0, maxMeta)
	for k, v := range m.meta {
		switch {
		case len(k) > maxMetaKeyBytes:
			return errors.Join(l.Err(), fmt.Errorf("meta %.40q has a key of %d bytes, want at most %d", k, len(k), maxMetaKeyBytes))
		case len(v) > maxMetaBytes:
			return errors.Join(l.Err(), fmt.Errorf("meta %.40q has %d bytes, want at most %d", k, len(v), maxMetaBytes))
		case !utf8.ValidString(k) || !utf8.ValidString(v):
			return errors.Join(l.Err(), fmt.Errorf("meta %.40q = %.40q is not UTF-8", k, v))
		}
	}
	return l.Err()
}
