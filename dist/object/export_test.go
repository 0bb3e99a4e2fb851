package object

// DecodeJSON is what a verb of JSON[T] does with the bytes of a peer.
func DecodeJSON[T any](b []byte) (v T, taken int, err error) {
	k, err := newJSONCodec[T]()
	if err != nil {
		return v, 0, err
	}
	return k.decode(b, MaxMemory)
}
