package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/boundjson"
)

// The bounds of single values in a manifest's text.
const (
	numberBytes     = 24
	maxFields       = 16
	digestHexBytes  = 2 * sha256.Size
	maxFileBytesOf1 = safetensors.MaxStateBytes + safetensors.MaxHeaderBytes + 64
)

// errVersion is no damage: to go on from an older checkpoint instead is for a person
// to decide.
var errVersion = errors.New("another release wrote it")

// decodeManifest reads what encode wrote, or one of another version, which is
// errVersion. Whatever else r holds is ErrCorrupt; an error of r itself is returned.
func decodeManifest(r io.Reader) (*manifest, error) {
	in := &watched{r: r}
	text, err := unseal(in)
	if in.err != nil {
		return nil, in.err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", checkpoint.ErrCorrupt, err)
	}
	p := manifestParser{dec: boundjson.NewDecoder(bytes.NewReader(text), maxManifestBytes)}
	if err := p.parse(); errors.Is(err, errVersion) {
		return nil, fmt.Errorf("manifest: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", checkpoint.ErrCorrupt, err)
	}
	return &p.m, nil
}

// watched is a reader that keeps its error, other than the end.
type watched struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// unseal gives the manifest's text, which has the digest that stands beside it.
func unseal(r io.Reader) ([]byte, error) {
	dec := boundjson.NewDecoder(r, maxManifestBytes)
	var text json.RawMessage
	var digest string
	err := dec.Object("file", 2, func(name string) error {
		switch name {
		case "manifest":
			return dec.Value("manifest", maxManifestBytes, &text)
		case "sha256":
			return dec.Text("sha256", digestHexBytes, &digest)
		}
		return fmt.Errorf("unknown field %.40q", name)
	})
	if err == nil {
		err = dec.End()
	}
	if err != nil {
		return nil, err
	}
	want, err := parseDigest(digest)
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(text); got != want {
		return nil, fmt.Errorf("SHA-256 is %x, want %x", got[:8], want[:8])
	}
	return text, nil
}

func parseDigest(text string) (sum [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != sha256.Size {
		return sum, fmt.Errorf("sha256 = %.80q, want %d hexadecimal digits", text, digestHexBytes)
	}
	return [sha256.Size]byte(b), nil
}

// manifestParser reads the text of a manifest.
type manifestParser struct {
	dec     *boundjson.Decoder
	m       manifest
	version int
}

func (p *manifestParser) parse() error {
	p.m.meta = make(map[string]string)
	if err := p.dec.Object("manifest", maxFields, p.field); err != nil {
		return err
	}
	if err := p.dec.End(); err != nil {
		return err
	}
	if p.version == 0 {
		return fmt.Errorf("version = 0, want %d", formatVersion)
	}
	return p.m.check()
}

func (p *manifestParser) field(name string) error {
	m := &p.m
	switch name {
	case "version":
		err := p.dec.Value(name, numberBytes, &p.version)
		if err == nil && p.version != formatVersion {
			err = fmt.Errorf("version = %d, want %d: %w", p.version, formatVersion, errVersion)
		}
		return err
	case "cluster":
		return p.dec.Text(name, maxClusterBytes, &m.position.Cluster)
	case "step":
		return p.dec.Value(name, numberBytes, &m.position.Step)
	case "quorum_id":
		return p.dec.Value(name, numberBytes, &m.position.QuorumID)
	case "batches_committed":
		return p.dec.Value(name, numberBytes, &m.batches)
	case "participants":
		return p.dec.Value(name, numberBytes, &m.participants)
	case "group_rank":
		return p.dec.Value(name, numberBytes, &m.at.rank)
	case "group_world_size":
		return p.dec.Value(name, numberBytes, &m.at.size)
	case "files":
		return p.dec.List(name, maxFiles, p.file)
	case "meta":
		return p.dec.Object(name, maxMeta, func(key string) error {
			var v string
			err := p.dec.Text("meta", maxMetaBytes+1, &v) // and the colon before it; check has the bound
			m.meta[key] = v
			return err
		})
	}
	return fmt.Errorf("unknown field %.40q", name)
}

// file reads the n-th file, whose name follows from n.
func (p *manifestParser) file(n int) error {
	var f file
	var digest string
	err := p.dec.Object("file", 3, func(name string) error {
		switch name {
		case "name":
			return p.dec.Text(name, MaxNameBytes, &f.Name)
		case "size_bytes":
			return p.dec.Value(name, numberBytes, &f.SizeBytes)
		case "sha256":
			return p.dec.Text(name, digestHexBytes, &digest)
		}
		return fmt.Errorf("unknown field %.40q of a file", name)
	})
	if err != nil {
		return err
	}
	if f.Name != fileName(n) || f.SizeBytes < 1 || f.SizeBytes > maxFileBytesOf1 {
		return fmt.Errorf("file %d is %.40q of %d bytes, want %s of 1 to %d", n, f.Name, f.SizeBytes, fileName(n), int64(maxFileBytesOf1))
	}
	f.SHA256, err = parseDigest(digest)
	p.m.files = append(p.m.files, f)
	return err
}
