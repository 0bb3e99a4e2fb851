// Package paramserver is a server of parameters over process groups of two: each client
// has a session, a group of its own with the server, in which the two move tensors as
// they have agreed. A session that fails ends alone; its client opens another.
//
// # Usage
//
//	s, err := paramserver.NewServer(paramserver.ServerConfig{
//		Listen:  "127.0.0.1:8080",
//		Backend: func() (pg.Backend, error) { return tcp.New(tcp.Options{}), nil },
//		Forward: func(ctx context.Context, _ paramserver.Session, g *pg.Group) error {
//			return g.Broadcast(ctx, tensor.Of(params), 0) // the server is rank 0
//		},
//	})
//	err = s.Run(ctx)
//
//	c, err := paramserver.Dial(ctx, paramserver.ClientConfig{Address: "127.0.0.1:8080", Backend: tcp.New(tcp.Options{})})
//	err = c.Broadcast(ctx, tensor.Of(params), 0) // the client is rank 1
//	err = c.Close()
//
// # A session
//
//	GET /new_session ─▶ {"session_id": ID, "store_addr": "host:port/session/ID"}
//
// The server begins the session with its answer: both configure a group of two in its own
// store, below that prefix, and Forward runs. When Forward returns without an error the server
// waits until the client has closed its end, so that nothing on its way to the client
// is lost; with an error, or a panic, the session ends at once. Then the store forgets
// the session. Other paths and methods are answered with 400, as torchft does.
//
// A session has a place of ServerConfig.MaxSessions from the request to its end; where all
// are taken the answer is 503, and Dial returns [ErrBusy]. A client that does not come
// within MeetTimeout, is silent in an operation for Timeout, or goes, loses its session.
//
// Forward is called by several sessions at a time. It must return soon after ctx ends
// or its group breaks; Run waits for it.
//
// # Guard
//
// Where other hosts reach the server it needs a Token, or a TLS that asks clients for
// certificates, or Open; NewServer refuses to listen otherwise. A client proves the token, which is never sent.
// The session's own secret, which store and data plane ask for, follows from the token and
// the session's id at both ends, so that who reads the answer cannot enter, and a client can
// reach the keys of its session alone. The proof of a request can be repeated by
// who reads it, for five minutes: that takes a place until MeetTimeout, and no more.
// Without a Token the secret follows from the id alone. Tensors are in the clear unless
// there is TLS.
//
// # Errors
//
// Dial: ErrBusy; [ErrDenied]; an answer that is none; those of pg.Group.Configure. What an
// operation of a session returns is package pg's. Forward's error is logged; the client sees
// that its peer has left.
//
// # Goroutines
//
// All belong to Server.Run, which has waited for each when it returns.
//
//	name          owns                 ends when
//	store.Run     the store            ctx, Close
//	serve         requests             ctx, Close
//	dispatch      the sessions, and    ctx, Close, and all sessions have ended
//	              what is swept
//	  hold        one session          Forward returns and the client goes; ctx; a timeout
//	shut          nothing              ctx, Close
//
// Dial and Client leave none behind but those of the backend.
package paramserver
