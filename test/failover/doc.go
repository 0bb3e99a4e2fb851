// Package failover kills, stops and cuts off lighthouse servers, each a process
// of its own, while replicas train that never rest: every second one leaves and
// one joins. A second job asks for a quorum every step, as torchft's clients do.
//
// Whatever happens to a minority of the servers, no step is discarded because of
// it, ids only rise, and nobody sees two member lists under one id.
//
//	go test ./test/failover                                  # a few kills
//	go test ./test/failover -run Kill -failover.kills 50     # make failover
//	go test ./test/failover -run Partition -failover.netns   # as root: cuts in network namespaces
package failover
