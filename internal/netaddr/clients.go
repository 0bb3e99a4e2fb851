package netaddr

import "crypto/tls"

// AsksClients says whether a server of that configuration (nil: without TLS) ends the
// handshake with a client that shows no certificate of its CAs. It asks
// GetConfigForClient, if there is one, as if for a client that says nothing; of one that
// needs more than that, it says no.
func AsksClients(server *tls.Config) bool {
	server = chosen(server)
	if server == nil {
		return false
	}
	switch server.ClientAuth {
	case tls.RequireAndVerifyClientCert:
		return true
	case tls.RequireAnyClientCert: // somebody else looks at what was signed
		return server.VerifyPeerCertificate != nil || server.VerifyConnection != nil
	case tls.NoClientCert, tls.RequestClientCert, tls.VerifyClientCertIfGiven:
	}
	return false
}

// chosen is the configuration that a server of c has for a client that says nothing;
// nil: none.
func chosen(c *tls.Config) (answer *tls.Config) {
	if c == nil || c.GetConfigForClient == nil {
		return c
	}
	defer func() {
		if recover() != nil { // it is somebody else's, and may look at the connection
			answer = nil
		}
	}()
	answer, err := c.GetConfigForClient(&tls.ClientHelloInfo{})
	if err != nil {
		return nil
	}
	if answer == nil {
		return c
	}
	return answer
}
