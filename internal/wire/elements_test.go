package wire

import (
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

func everyMessage() []protoreflect.MessageDescriptor {
	var all []protoreflect.MessageDescriptor
	files := []protoreflect.FileDescriptor{skerrypb.File_skerry_proto, skerrypb.File_cluster_proto, torchftpb.File_torchft_proto}
	for _, file := range files {
		for i := range file.Messages().Len() {
			all = append(all, file.Messages().Get(i))
		}
	}
	return all
}

// TestEveryListIsBounded: no list of any message is without a bound, and no bound
// is of a field that is not there.
func TestEveryListIsBounded(t *testing.T) {
	t.Parallel()
	limits := elementLimits()
	for _, m := range everyMessage() {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if f.IsMap() {
				t.Errorf("%s is a map: nothing counts its entries", f.FullName())
			}
			if !f.IsList() {
				continue
			}
			if limits[f.FullName()] < 1 {
				t.Errorf("%s has no bound in elementLimits", f.FullName())
			}
			delete(limits, f.FullName())
		}
	}
	for name := range limits {
		t.Errorf("elementLimits has %s, which is no list", name)
	}
}

// empties is a message of n empty elements of a field, within others.
func empties(n int, field protowire.Number, within ...protowire.Number) []byte {
	tag := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil)
	b := make([]byte, 0, n*len(tag))
	for range n {
		b = append(b, tag...)
	}
	for _, outer := range within {
		b = protowire.AppendBytes(protowire.AppendTag(nil, outer, protowire.BytesType), b)
	}
	return b
}

// TestElementBombs: a message of 2 million empty elements costs no object, and the
// error names the list and its bound.
func TestElementBombs(t *testing.T) {
	const n = 2_000_000
	for name, c := range map[string]struct {
		bytes []byte
		into  proto.Message
		field string
	}{
		"hello's last members": {empties(n, 3, 7, 1), &skerrypb.Up{}, "members"},
		"hello's accusations":  {empties(n, 8, 1), &skerrypb.Up{}, "accusations"},
		"join's digests":       {empties(n, 4, 3), &skerrypb.Up{}, "last_digests"},
		"hello again":          {empties(n, 1), &skerrypb.Up{}, "hello"},
		"founders":             {empties(n, 10, 1), &skerrypb.IntroduceRequest{}, "founders"},
		"addresses":            {empties(n, 2), &skerrypb.IntroduceRequest{}, "known"},
		"a rank's accusations": {empties(n, 17), &skerrypb.RankQuorumRequest{}, "accusations"},
		"an answer's members":  {empties(n, 5, 2, 2), &skerrypb.Down{}, "members"},
		"handles":              {empties(n, 9, 1), &torchftpb.LighthouseQuorumRequest{}, "reconfigure_handles"},
		"packed numbers": {protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), make([]byte, n)),
			&torchftpb.ManagerQuorumResponse{}, "recover_dst_replica_ranks"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.bytes)}, c.into)
		runtime.ReadMemStats(&after)
		refused, ok := errors.AsType[*FieldError](err)
		if !ok || refused.Field != c.field || !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("%s: got %v, want a refusal of %s", name, err, c.field)
		}
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 2<<20 {
			t.Errorf("%s: %d bytes allocated for a refusal", name, spent)
		}
	}
}

// TestElementsOfAllKinds: lists within lists are bounded together, groups and deep
// messages are refused, and what our own side sends passes.
func TestElementsOfAllKinds(t *testing.T) {
	t.Parallel()
	ranks := make([]*skerrypb.RankView, MaxGroupWorldSize)
	for i := range ranks {
		ranks[i] = &skerrypb.RankView{}
		for range quorum.MaxViewSources {
			ranks[i].Sources = append(ranks[i].Sources, &skerrypb.Peer{})
		}
		for range quorum.MaxViewPeers {
			ranks[i].Targets = append(ranks[i].Targets, &skerrypb.Peer{})
		}
	}
	nested, err := proto.Marshal(&skerrypb.View{Ranks: ranks})
	if err != nil {
		t.Fatal(err)
	}
	view := (&skerrypb.View{}).ProtoReflect().Descriptor()
	if elements := MaxGroupWorldSize * (1 + quorum.MaxViewSources + quorum.MaxViewPeers); elements > freeElements+len(nested)/bytesAnElement {
		if err := CheckElements(nested, view); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("%d elements in %d bytes: %v, want a refusal", elements, len(nested), err)
		}
	}
	group := protowire.AppendTag(protowire.AppendTag(nil, 99, protowire.StartGroupType), 99, protowire.EndGroupType)
	if err := CheckElements(group, view); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("a group: %v, want a refusal", err)
	}
	largest := &skerrypb.SessionHello{Last: &skerrypb.LastAnswer{}}
	for range 1_024 {
		largest.Last.Members = append(largest.Last.Members, &skerrypb.Member{ReplicaId: "x", Position: &skerrypb.Position{}})
	}
	for range MaxAccusations {
		largest.Accusations = append(largest.Accusations, &skerrypb.Accusation{By: "x"})
	}
	sent := &skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: largest}}
	data, err := Codec().Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	got := &skerrypb.Up{}
	if err := Codec().Unmarshal(data, got); err != nil {
		t.Errorf("the largest hello that is sent: %v", err)
	} else if d := cmp.Diff(sent, got, protocmp.Transform()); d != "" {
		t.Errorf("it changed (-sent +got):\n%s", d)
	}
}

// FuzzElements: what is let through, protobuf decodes or refuses without making more
// elements than were counted; and what protobuf made of our own is let through.
func FuzzElements(f *testing.F) {
	all := []func() proto.Message{
		func() proto.Message { return &skerrypb.Up{} }, func() proto.Message { return &skerrypb.Down{} },
		func() proto.Message { return &skerrypb.IntroduceRequest{} }, func() proto.Message { return &skerrypb.RankQuorumRequest{} },
		func() proto.Message { return &skerrypb.HistoryResponse{} }, func() proto.Message { return &torchftpb.LighthouseQuorumRequest{} },
		func() proto.Message { return &torchftpb.ManagerQuorumResponse{} },
	}
	f.Add(uint8(0), empties(3, 3, 7, 1))
	f.Add(uint8(0), empties(MaxAccusations+1, 8, 1))
	f.Add(uint8(1), empties(2, 15, 11, 2, 2))
	f.Add(uint8(2), empties(MaxVoters+1, 10, 1))
	f.Add(uint8(3), empties(MaxAccusations, 17))
	f.Add(uint8(6), []byte{0x22, 3, 1, 2, 3})
	f.Add(uint8(0), []byte{0x0b, 0x0c})
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		m := all[int(which)%len(all)]()
		if CheckElements(data, m.ProtoReflect().Descriptor()) != nil {
			return
		}
		if proto.Unmarshal(data, m) != nil {
			return
		}
		checkLists(t, m.ProtoReflect(), elementLimits())
		again, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckElements(again, m.ProtoReflect().Descriptor()); err != nil {
			t.Errorf("what was decoded and encoded anew is refused: %v", err)
		}
	})
}

func checkLists(t *testing.T, m protoreflect.Message, limits map[protoreflect.FullName]int) {
	t.Helper()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			if n := v.List().Len(); n > limits[f.FullName()] {
				t.Errorf("%s has %d elements, want at most %d", f.FullName(), n, limits[f.FullName()])
			}
			for i := 0; f.Message() != nil && i < v.List().Len(); i++ {
				checkLists(t, v.List().Get(i).Message(), limits)
			}
		case f.Message() != nil:
			checkLists(t, v.Message(), limits)
		}
		return true
	})
}
