package store_test

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/store"
)

// Two ranks of quorum 7 tell each other where they listen.
func Example() {
	ctx := context.Background()
	server, err := store.NewServer(store.ServerConfig{Guarded: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()

	// The quorum's token is good for the quorum's keys.
	token := []byte("drawn by the lighthouse")
	if err := server.Allow("job/7", token); err != nil {
		fmt.Println(err)
		return
	}
	address := server.Addr() + "/job/7/0"

	ranks := make(chan string, 2)
	for rank := range 2 {
		go func() {
			s, err := store.Open(ctx, address, store.ClientConfig{Token: token})
			if err != nil {
				ranks <- err.Error()
				return
			}
			defer s.Close()
			mine := fmt.Sprintf("rank %d's address", rank)
			if err := s.Set(ctx, fmt.Sprint(rank), []byte(mine)); err != nil {
				ranks <- err.Error()
				return
			}
			peer, err := s.Get(ctx, fmt.Sprint(1-rank)) // waits for it
			ranks <- fmt.Sprintf("rank %d got %s %v", rank, peer, err)
		}()
	}
	a, b := <-ranks, <-ranks
	fmt.Println(min(a, b))
	fmt.Println(max(a, b))

	// The next quorum has configured: the old keys and the old members go.
	deleted, err := store.WithPrefix(server.Local(), "job/7").DeletePrefix(ctx, "")
	server.Forget(token)
	fmt.Println("deleted", deleted, err)
	fmt.Println(server.Close(), <-done)
	// Output:
	// rank 0 got rank 1's address <nil>
	// rank 1 got rank 0's address <nil>
	// deleted 2 <nil>
	// <nil> <nil>
}
