package paramserver

import "context"

// Keys is how many keys the store holds.
func (s *Server) Keys(ctx context.Context) (int64, error) { return s.store.Local().NumKeys(ctx) }

// ReadAnswer is what Dial does with what a server has answered.
func ReadAnswer(status int, text []byte) (id, address string, err error) {
	a, err := readAnswer(status, text)
	return a.ID, a.Address, err
}
