package netif_test

import (
	"fmt"

	"github.com/skerry-ft/skerry/pg/netif"
)

// A mark before the list is one of each name.
func ExampleParse() {
	fmt.Println(netif.Parse("eth0,eth1"), netif.Parse("^docker,lo"))
	// Output:
	// [eth0 eth1] [^docker ^lo]
}
