package manager

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// states are the registered parts of a rank's state. They do not change once
// Run has begun.
type states struct {
	parts []statePart
}

type statePart struct {
	name string
	save func() checkpoint.State
	load func(checkpoint.State) error
}

// ownState is the Manager's own part, which travels as metadata. The position
// is the version's.
type ownState struct {
	batches int64
	digest  quorum.Digest
}

// The names of the Manager's own metadata. No part can have this prefix.
const (
	ownPrefix  = "skerry/"
	ownBatches = ownPrefix + "batches_committed"
	ownDigest  = ownPrefix + "digest"
)

func (s *states) add(name string, save func() checkpoint.State, load func(checkpoint.State) error) error {
	switch {
	case name == "" || strings.Contains(name, "/") || name+"/" == ownPrefix:
		return fmt.Errorf("manager: register state %q: want a name without slashes, other than %q",
			name, strings.TrimSuffix(ownPrefix, "/"))
	case save == nil:
		return fmt.Errorf("manager: register state %q: save is nil", name)
	case slices.ContainsFunc(s.parts, func(p statePart) bool { return p.name == name }):
		return fmt.Errorf("manager: register state %q: registered already", name)
	}
	s.parts = append(s.parts, statePart{name: name, save: save, load: load})
	return nil
}

// save gathers all parts into one state of views.
func (s *states) save(own ownState) (checkpoint.State, error) {
	all := checkpoint.State{Tensors: make(map[string]pg.Tensor), Meta: make(map[string]string)}
	for _, p := range s.parts {
		part := p.save()
		for name, t := range part.Tensors {
			all.Tensors[p.name+"/"+name] = t
		}
		for key, v := range part.Meta {
			all.Meta[p.name+"/"+key] = v
		}
	}
	all.Meta[ownBatches] = strconv.FormatInt(own.batches, 10)
	if own.digest.Valid {
		all.Meta[ownDigest] = hex.EncodeToString(binary.BigEndian.AppendUint32(nil, own.digest.Sum))
	}
	return all, nil
}

// incoming is what heals have brought of a state, and the tensors that it is for.
// Heals that break off leave it to the next one.
type incoming struct {
	mirror *checkpoint.Mirror
	parts  []checkpoint.State // as the parts saved them
}

// incoming makes one, empty.
func (s *states) incoming(progress func(int64)) (*incoming, error) {
	in := &incoming{}
	all := checkpoint.State{Tensors: make(map[string]pg.Tensor)}
	for _, p := range s.parts {
		part := p.save()
		for name, t := range part.Tensors {
			all.Tensors[p.name+"/"+name] = t
		}
		in.parts = append(in.parts, part)
	}
	var err error
	in.mirror, err = checkpoint.NewMirror(all, checkpoint.MirrorOptions{Progress: progress})
	return in, err
}

// install makes v, which has come with meta, the live tensors' bytes, and tells
// the parts.
func (s *states) install(in *incoming, v checkpoint.Version, meta map[string]string) (ownState, error) {
	own, err := parseOwn(meta)
	if err != nil {
		return own, err
	}
	if err := in.mirror.Install(v); err != nil {
		return own, err
	}
	for i, p := range s.parts {
		part := in.parts[i]
		part.Meta = under(meta, p.name+"/")
		if p.load == nil {
			continue
		}
		if err := p.load(part); err != nil {
			return own, fmt.Errorf("state %q: %w", p.name, err)
		}
	}
	return own, nil
}

// under is the metadata of one part.
func under(meta map[string]string, prefix string) map[string]string {
	part := make(map[string]string)
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			part[name] = meta[key]
		}
	}
	return part
}

// parseOwn reads the Manager's own part, as a peer sent it.
func parseOwn(meta map[string]string) (ownState, error) {
	var own ownState
	n, err := strconv.ParseInt(meta[ownBatches], 10, 64)
	if err != nil || n < 0 {
		return own, fmt.Errorf("%w: %s = %q, want a number >= 0", checkpoint.ErrCorrupt, ownBatches, meta[ownBatches])
	}
	own.batches = n
	if text := meta[ownDigest]; text != "" {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != 4 {
			return own, fmt.Errorf("%w: %s = %q, want 8 hexadecimal digits", checkpoint.ErrCorrupt, ownDigest, text)
		}
		own.digest = quorum.Digest{Valid: true, Sum: binary.BigEndian.Uint32(b)}
	}
	return own, nil
}
