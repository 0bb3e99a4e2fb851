// Package torchft is a manager for replicas whose ranks run torchft: it serves
// torchft's ManagerService, so torchft's own ManagerClient works with it
// unchanged, and speaks for the replica to one lighthouse after another.
//
//	s, err := torchft.New(torchft.Config{ReplicaID: "name:uuid", Lighthouse: servers, StoreAddress: store})
//	err = s.Run(ctx) // s.Address() is what torchft's ManagerServer.address() returns
//
// torchft's Manager starts one of its own in group rank 0; [Shim] has it start ours.
// A [Proxy] leaves torchft's manager where it is, and is the one lighthouse address
// that it knows.
//
// What it does better than the manager that it stands in for: it knows several
// lighthouse servers and goes on with the next one when one is gone; ranks that
// disagree about their step make the replica heal, instead of the last caller's
// word counting; a vote names its step, and is taken back with its call; every
// wait has a deadline; everything that a peer sends is bounded.
//
// There are no ballots and no settlements with torchft's ranks: they know none.
// Plans follow torchft's rules to the letter, for the replicas of one job may
// have managers of either kind, and must agree who heals from whom.
//
// # Goroutines
//
//	name        owns                     waits for                ends when
//	Run         the listener             the two below            ctx ends, or one of them fails
//	  rpc.Serve connections              calls                    Run stops it
//	  beat      nothing                  the beat interval        ctx ends
//	  round.ask one call of the          the answer               ctx ends, the longest deadline of the ranks
//	            lighthouse               that it serves
//	Proxy.Run   the proxy's listener   calls                    ctx ends, or the listener fails
//
// # Concurrency
//
// Methods of Server and Proxy are safe for concurrent use; Run is called once.
package torchft
