package guard

// LookAlways makes g look at its files at every use.
func LookAlways(g *Guard) {
	if g.TLS != nil {
		g.TLS.files.every = 0
	}
	if g.Token.file != nil {
		g.Token.file.every = 0
	}
}

// OldProof is a proof that was made ms milliseconds after 1970.
func OldProof(s Secret, method string, ms int64) string {
	return proofOf(s, method, nil, ms, make([]byte, nonceBytes))
}
