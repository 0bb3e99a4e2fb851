package web

import (
	"net"
	"net/http"
)

// boundUnread bounds what the system keeps for the reader of a stream, and for how long: without
// it that is megabytes, which a quiet stream takes an hour to fill.
func boundUnread(r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	for {
		below, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = below.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(unreadBytes) // refused: the system's own bound holds
		boundSilence(tcp)
	}
}
