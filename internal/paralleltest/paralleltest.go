// Package paralleltest says how many parallel tests of a package run at a time.
//
// The go command's usual number is that of the processors. Tests that wait for
// elections, deadlines and processes rather than compute leave the machine idle then.
package paralleltest

import (
	"flag"
	"fmt"
	"strconv"
)

// AtOnce has n tests run at a time unless -parallel says otherwise. It is called by
// TestMain, before m.Run, and parses the flags.
func AtOnce(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(fmt.Sprintf("paralleltest: %d tests at once: %v", n, err)) // called outside a test binary
	}
}
