package place_test

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/train/place"
)

// A program asks where it stands, and runs alone where nothing has started it as one of
// several.
func ExampleFind() {
	vars := map[string]string{"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node-0"}
	p, err := place.Find(place.Env{Var: func(name string) string { return vars[name] }}) // FromEnv, in a program
	switch {
	case errors.Is(err, place.ErrNotLaunched):
		fmt.Println("alone")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(p.Launcher, p.Rank, "of", p.WorldSize, p.Method())
	}
	// Output: env 1 of 4 tcp://node-0:29500?rank=1&world_size=4
}

// Lists of hosts are written as Slurm writes them.
func ExampleExpandHosts() {
	fmt.Println(place.ExpandHosts("gpu[01-03,7],login"))
	// Output: [gpu01 gpu02 gpu03 gpu7 login] <nil>
}
