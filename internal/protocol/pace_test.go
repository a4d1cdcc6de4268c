package protocol

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestPacer shows that reads are held back only while changes come in, and then
// to the rate, all readers together.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const piece = 128 << 10
		p := pacer{rate: pacedRate * runtime.GOMAXPROCS(0)}
		send := func(changes int) (sent int) {
			for began := time.Now(); time.Since(began) < time.Second; {
				p.changes.Add(uint64(changes))
				<-time.After(p.pause(piece, time.Now()))
				sent += piece
				<-time.After(100 * time.Microsecond) // what sending takes
			}
			return sent
		}
		free := send(0)
		if free < 9000*piece {
			t.Errorf("without changes %d bytes were sent in a second", free)
		}
		paced := send(10)
		if limit := 3 * pacedRate * 64; paced > limit || paced > free/2 {
			t.Errorf("with changes %d bytes were sent in a second, %d without", paced, free)
		}
		if again := send(0); again < free*9/10 {
			t.Errorf("after the changes %d bytes were sent in a second", again)
		}
	})
}
