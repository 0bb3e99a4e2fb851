package durable

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
)

// verify reads a checkpoint: the manifests of all ranks, then the files. What is
// missing or not as it was written is fs.ErrNotExist or checkpoint.ErrCorrupt.
func (c *Checkpointer) verify(ctx context.Context, t *candidate, world int) (*Found, error) {
	f := &Found{Name: t.title.String(), GroupWorldSize: world}
	for rank := range world {
		at := shard{rank: rank, size: world}
		m, err := c.readManifest(ctx, t, at)
		if err != nil {
			return nil, fmt.Errorf("group rank %d: %w", rank, err)
		}
		f.shards = append(f.shards, foundShard{manifest: m})
		first := f.shards[0].manifest
		if m.position != first.position || m.batches != first.batches {
			return nil, corruptf("group ranks 0 and %d are of %+v with %d batches, and %+v with %d", rank, first.position, first.batches, m.position, m.batches)
		}
		f.Position, f.Batches, f.Participants = first.position, first.batches, first.participants
		for _, file := range m.files {
			f.SizeBytes += file.SizeBytes
		}
	}
	for rank := range f.shards {
		if c.cfg.TrustOthers && world == c.cfg.GroupWorldSize && rank != c.cfg.GroupRank {
			continue
		}
		if err := c.verifyShard(ctx, f, rank); err != nil {
			return nil, fmt.Errorf("group rank %d: %w", rank, err)
		}
	}
	return f, nil
}

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", checkpoint.ErrCorrupt, fmt.Sprintf(format, args...))
}

// readManifest reads one rank's, and holds it against what is listed.
func (c *Checkpointer) readManifest(ctx context.Context, t *candidate, at shard) (*manifest, error) {
	r, err := c.cfg.Store.Get(ctx, t.title.String()+"/"+at.folder()+"/"+manifestName)
	if err != nil {
		return nil, err
	}
	defer r.Close() // what was read says what there is to say
	m, err := decodeManifest(r)
	switch {
	case err != nil:
		return nil, err
	case m.at != at || m.position.Step != t.title.step || m.position.QuorumID != t.title.quorumID:
		return nil, corruptf("manifest is of group rank %d of %d, %+v", m.at.rank, m.at.size, m.position)
	}
	for _, f := range m.files {
		size, ok := t.sizes[at.folder()+"/"+f.Name]
		switch {
		case !ok:
			return nil, corruptf("file %s is missing", f.Name)
		case size != f.SizeBytes:
			return nil, corruptf("file %s has %d bytes, want %d", f.Name, size, f.SizeBytes)
		}
	}
	return m, nil
}

// verifyShard reads one rank's files.
func (c *Checkpointer) verifyShard(ctx context.Context, f *Found, rank int) error {
	s := &f.shards[rank]
	had := make(map[string]bool)
	for i := range s.manifest.files {
		tensors, err := c.verifyFile(ctx, f, rank, i)
		if err != nil {
			return fmt.Errorf("file %s: %w", s.manifest.files[i].Name, err)
		}
		for _, t := range tensors {
			if had[t.Name] {
				return corruptf("tensor %.80q stands in two files", t.Name)
			}
			had[t.Name] = true
		}
		s.tensors = append(s.tensors, tensors)
	}
	return nil
}

// verifyFile reads one file, and says which tensors are in it.
func (c *Checkpointer) verifyFile(ctx context.Context, f *Found, rank, i int) ([]foundTensor, error) {
	var tensors []foundTensor
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	closeLast := func() {
		if n := len(tensors); n > 0 {
			tensors[n-1].sum = sum.Sum32()
		}
		sum.Reset() // of the header, or of the tensor before
	}
	err := c.readFile(ctx, f, rank, i, sum, func(info safetensors.TensorInfo) ([]byte, error) {
		closeLast()
		tensors = append(tensors, foundTensor{TensorInfo: info})
		return nil, nil
	})
	closeLast()
	return tensors, err
}

// readFile decodes a file, and compares its size and digest. also, if not nil, is told
// all bytes.
func (c *Checkpointer) readFile(
	ctx context.Context, f *Found, rank, i int, also hash.Hash, take func(safetensors.TensorInfo) ([]byte, error),
) error {
	m := f.shards[rank].manifest
	want := m.files[i]
	body, err := c.cfg.Store.Get(ctx, f.Name+"/"+m.at.folder()+"/"+want.Name)
	if err != nil {
		return err
	}
	defer body.Close() // what was read says what there is to say
	digest := sha256.New()
	var all io.Writer = digest
	if also != nil {
		all = io.MultiWriter(digest, also)
	}
	// Each byte of the file is read once, the one behind its end too, if there is one.
	r := io.TeeReader(&ctxReader{ctx: ctx, r: bufio.NewReaderSize(io.LimitReader(body, want.SizeBytes+1), readStep)}, all)
	if _, err := safetensors.DecodeEach(r, take); err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n > 0 {
		return cmp.Or(err, corruptf("bytes follow the tensors"))
	}
	if [sha256.Size]byte(digest.Sum(nil)) != want.SHA256 {
		return corruptf("SHA-256 is %x…, want %x…", digest.Sum(nil)[:8], want.SHA256[:8])
	}
	return nil
}

// readStep is how much is asked of a store at a time.
const readStep = 1 << 20

// ctxReader ends with ctx.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (r *ctxReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
