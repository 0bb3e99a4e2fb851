package wire

import (
	"fmt"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/skerry-ft/skerry/quorum"
)

const (
	// maxOnce is how often a field that is no list may be there. Encoders write it
	// once; each further one is work for nothing.
	maxOnce = 4

	// maxDepth bounds messages within messages. Ours are 7 deep.
	maxDepth = 16

	// freeElements is how many elements of all kinds a message may have, and
	// bytesAnElement for how many bytes one more: so what a message becomes is a
	// small multiple of its bytes, however its lists are nested.
	freeElements   = 1 << 16
	bytesAnElement = 16

	// maxListedJobs bounds the jobs in an answer to an operator.
	maxListedJobs = 1 << 16
)

// elementLimits bound the lists of every message, by the field's full name. A
// list that is not here may have no element: TestEveryListIsBounded.
func elementLimits() map[protoreflect.FullName]int {
	return map[protoreflect.FullName]int{
		"skerry.v1.ServerInfo.founders":     MaxVoters,
		"skerry.v1.ServerInfo.abandoned":    MaxAbandoned,
		"skerry.v1.IntroduceRequest.known":  MaxKnown,
		"skerry.v1.IntroduceResponse.known": MaxKnown,
		"skerry.v1.MembersResponse.members": MaxServers,

		"skerry.v1.Fact.digests":                  MaxGroupWorldSize,
		"skerry.v1.Settlement.digests":            MaxGroupWorldSize,
		"skerry.v1.Join.last_digests":             MaxGroupWorldSize,
		"skerry.v1.VoteResponse.digests":          MaxGroupWorldSize,
		"skerry.v1.LastAnswer.members":            1_024, // as many as older lighthouses told lists, above quorum.MaxListed
		"skerry.v1.SessionHello.accusations":      MaxAccusations,
		"skerry.v1.Join.accusations":              MaxAccusations,
		"skerry.v1.RankQuorumRequest.accusations": MaxAccusations,

		"skerry.v1.Quorum.members":      MaxMembers,
		"skerry.v1.Quorum.participants": MaxMembers,
		"skerry.v1.View.participants":   MaxMembers,
		"skerry.v1.View.healing":        quorum.MaxViewPeers,
		"skerry.v1.View.ranks":          MaxGroupWorldSize,
		"skerry.v1.View.seats":          MaxMembers,
		"skerry.v1.RankView.sources":    quorum.MaxViewSources,
		"skerry.v1.RankView.targets":    quorum.MaxViewPeers,
		"skerry.v1.Welcome.servers":     MaxServers,
		"skerry.v1.Redirect.servers":    MaxServers,
		"skerry.v1.Sources.peers":       quorum.MaxSources,

		"skerry.v1.InfoResponse.servers":                          MaxServers,
		"skerry.v1.InfoResponse.jobs":                             maxListedJobs,
		"skerry.v1.JobsResponse.jobs":                             maxListedJobs,
		"skerry.v1.HistoryResponse.entries":                       MaxHistory,
		"skerry.v1.HistoryEntry.members":                          MaxMembers,
		"skerry.v1.HistoryEntry.joined":                           MaxMembers,
		"skerry.v1.HistoryEntry.left":                             MaxMembers,
		"skerry.v1.HistoryEntry.accusations":                      MaxMembers,
		"torchft.QuorumMember.reconfigure_handles":                MaxGroupWorldSize,
		"torchft.Quorum.participants":                             MaxMembers,
		"torchft.ManagerQuorumResponse.replica_ids":               MaxMembers,
		"torchft.ManagerQuorumResponse.reconfigure_handles":       MaxMembers,
		"torchft.ManagerQuorumResponse.recover_dst_replica_ranks": MaxMembers,
	}
}

// shape is what is counted of a message.
type shape struct {
	fields map[protowire.Number]*counted
}

// counted is a field that is a list or a message.
type counted struct {
	index   int // among those of its message
	name    string
	most    int
	scalar  bool   // elements are numbers, which may be packed
	message *shape // nil: elements are no messages
}

// shapes are those of all message types that were decoded, made when they are
// first met. It is safe for concurrent use.
var shapes struct {
	sync.Mutex

	limits map[protoreflect.FullName]int
	known  map[protoreflect.FullName]*shape
}

func shapeOf(d protoreflect.MessageDescriptor) *shape {
	shapes.Lock()
	defer shapes.Unlock()
	if shapes.known == nil {
		shapes.limits, shapes.known = elementLimits(), make(map[protoreflect.FullName]*shape)
	}
	return shapeLocked(d)
}

func shapeLocked(d protoreflect.MessageDescriptor) *shape {
	if s := shapes.known[d.FullName()]; s != nil {
		return s
	}
	s := &shape{fields: make(map[protowire.Number]*counted)}
	shapes.known[d.FullName()] = s // before its fields, which may hold it again
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		isMessage := f.Message() != nil
		if !f.IsList() && !isMessage {
			continue
		}
		c := &counted{index: len(s.fields), name: string(f.Name()), most: maxOnce}
		if f.IsList() {
			c.most = shapes.limits[f.FullName()]
			kind := f.Kind()
			c.scalar = !isMessage && kind != protoreflect.StringKind && kind != protoreflect.BytesKind
		}
		if isMessage {
			c.message = shapeLocked(f.Message())
		}
		s.fields[f.Number()] = c
	}
	return s
}

// CheckElements walks the wire format of a message of type d and counts the
// elements of its lists, without decoding them. It returns a [*FieldError] for a
// list that is longer than it may be, and an error for what is no message.
func CheckElements(b []byte, d protoreflect.MessageDescriptor) error {
	w := walk{left: freeElements + len(b)/bytesAnElement}
	return w.message(b, shapeOf(d), 0)
}

// walk counts the elements of one message.
type walk struct {
	left int // elements that the whole message may have yet
}

// countsKept is how many counted fields a message has at most without a slice of
// its own.
const countsKept = 16

func (w *walk) message(b []byte, s *shape, depth int) error {
	if depth >= maxDepth {
		return &FieldError{Field: "message", Value: "nested deeper", Bound: "at most " + strconv.Itoa(maxDepth) + " messages within each other"}
	}
	var few [countsKept]int
	counts := few[:]
	if len(s.fields) > len(few) {
		counts = make([]int, len(s.fields))
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("decode a field's tag: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if kind == protowire.StartGroupType || kind == protowire.EndGroupType {
			return &FieldError{Field: "field " + strconv.Itoa(int(number)), Value: "a group", Bound: "none: no message has any"}
		}
		n = protowire.ConsumeFieldValue(number, kind, b)
		if n < 0 {
			return fmt.Errorf("decode field %d: %w", number, protowire.ParseError(n))
		}
		value := b[:n]
		b = b[n:]
		c := s.fields[number]
		if c == nil {
			continue
		}
		if err := w.count(c, &counts[c.index], kind, value); err != nil {
			return err
		}
		if c.message == nil || kind != protowire.BytesType {
			continue
		}
		inner, _ := protowire.ConsumeBytes(value) // it was consumed above
		if err := w.message(inner, c.message, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// count counts one element, or those of a packed list, in so far.
func (w *walk) count(c *counted, so *int, kind protowire.Type, value []byte) error {
	n := 1
	if c.scalar && kind == protowire.BytesType {
		inner, _ := protowire.ConsumeBytes(value)
		n = len(inner) // an element is a byte at least
	}
	*so += n
	if *so > c.most {
		return &FieldError{Field: c.name, Value: strconv.Itoa(*so) + " elements and perhaps more", Bound: "at most " + strconv.Itoa(c.most)}
	}
	if w.left -= n; w.left < 0 {
		return &FieldError{Field: c.name, Value: "one element too many of the whole message", Bound: "at most " +
			strconv.Itoa(freeElements) + ", and one for each " + strconv.Itoa(bytesAnElement) + " bytes"}
	}
	return nil
}
