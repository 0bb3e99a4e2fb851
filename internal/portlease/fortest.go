package portlease

// TB is what of testing.TB is needed here; programs that lease ports do not carry
// package testing along.
type TB interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
	Cleanup(f func())
}

// ForTest leases n addresses until the test is over.
func ForTest(t TB, n int) []string {
	t.Helper()
	l, err := Take(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("give ports back: %v", err)
		}
	})
	return l.Addrs
}
