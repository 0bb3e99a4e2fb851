package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec below
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Codec is gRPC's codec for protobuf, which looks at the wire format of a message
// before it makes objects of it: a message with more elements than the bounds of
// this package allow is refused, and costs no more than its bytes. Without it,
// two bytes of an empty element become an object of a hundred and more.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

// codec is safe for concurrent use.
type codec struct {
	encoding.CodecV2
}

// Unmarshal refuses what CheckElements refuses.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("decode into a %T, want a proto.Message", v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if err := CheckElements(buf.ReadOnlyData(), m.ProtoReflect().Descriptor()); err != nil {
		return err
	}
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}
