// Package pgcarrier moves the bytes of heals over process groups: each donor and target
// form a group of two for as long as the target fetches, of whatever backend takes tensors
// in host memory, and chunks travel as its sends and receives. With package pg/tcp that is
// shared memory between processes of one host, and several sockets between hosts.
//
//	c, err := pgcarrier.New(pgcarrier.Config{Open: func() (pg.Backend, error) { return tcp.New(tcp.Options{}), nil }})
//	t, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{Carrier: c})
//
// The donor keeps a store for the rendezvous of the two, at a port of its own that is
// guarded by a secret which both derive from the quorum's token; it is gone with the group.
// Package checkpoint says what is asked for by HTTP, and what comes by HTTP where a
// group cannot be formed, or breaks.
//
// Nothing blocks but the methods of an end, which end with their ctx and with Close.
package pgcarrier
