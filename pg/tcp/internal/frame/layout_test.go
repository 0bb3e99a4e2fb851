package frame

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// TestLayouts: what goes over the wire is, byte for byte, what the package comment
// says, and what ranks that were built earlier understand.
func TestLayouts(t *testing.T) {
	t.Parallel()
	hello := Hello{Cluster: "job", ReplicaID: "a:b", Numbers: Numbers{
		QuorumID: -2, GroupRank: 3, Rank: 1, WorldSize: 5, Lane: 1, Socks: 4,
		Window: [Classes]uint32{MinWindowBytes, MaxWindowBytes}, Rings: [Classes]uint64{64, 1 << 40},
	}}
	for i := range hello.Nonces {
		hello.Nonces[i], hello.Members[i] = byte(i+1), byte(0x80+i)
	}
	hello.Prove([]byte("token"), Nonce{1}, Nonce{2}, Binding{3})
	header := Header{
		Type: TypeData, Phase: 1, Length: 1000, Epoch: EpochOf(pg.Epoch{Cluster: "job", QuorumID: -5}),
		Seq: 7, Offset: 24, Total: 4096, Tag: 9, CRC: 0xdeadbeef,
		Call: Call{Kind: pg.KindAllReduce, DType: tensor.Float32, Reduce: tensor.Max, Root: -1, Round: 3, Count: 1024, Sig: 0xcafe},
	}
	head := make([]byte, HeaderBytes)
	header.Encode(head)
	cause := Cause{Code: CodeMismatch, Peer: -1, PeerID: "x:y", Kind: pg.KindScatter, Seq: 1 << 40, Err: errors.New("why")}
	members := MemberHash([]string{"a", "b"})
	for _, c := range []struct {
		what string
		got  []byte
		want string
	}{
		{"Hello", hello.Encode(), `
			feffffffffffffff 03000000 01000000 05000000 80011000 00000040 01000000
			4000000000000000 0000000000010000 04000000
			0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20
			808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f
			0300 6a6f62 0300 613a62 d0762bcc5e87565574d3e301a2268ff54db8a67d729b586aa170d378d7aa70a2`},
		{"header", head, `
			535b 01 02 e8030000 5e8c9902207afaeb fbffffffffffffff 0300000000000000 0700000000000000
			1800000000000000 0010000000000000 0004000000000000 0900000000000000
			ffffffff 01 0c 04 01 feca0000 00000000 efbeadde 874aaf80`},
		{"abort", cause.Encode(), "06 06 ffffffff 0000000000010000 0300 783a79 0300 776879"},
		{"hash of members", members[:], "37efc929c5c40fd796cc3111e218b304223414aa11ecf5c41f8187cd40cb5955"},
	} {
		if got, want := hex.EncodeToString(c.got), strings.Join(strings.Fields(c.want), ""); got != want {
			t.Errorf("%s: %s, want %s", c.what, got, want)
		}
	}
}
