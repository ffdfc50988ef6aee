//! The loop in which every initiator receives.

use std::io;

use ring::{Inflow, Socket};

/// What takes in the bytes of a connection. An error says how the peer broke the rules.
pub(super) trait Intake {
    /// What the peer is called.
    const PEER: &'static str;

    /// Whether we are leaving: the peer is right to close the connection then.
    fn is_leaving(&self) -> bool;

    /// Everything that was received, in order. Gives how many requests it has ended.
    fn take_in(&mut self, bytes: &[u8]) -> Result<u32, String>;

    /// Whether so much of one piece of data is missing that it is received straight into its buffer.
    fn is_direct(&self) -> Result<bool, String>;

    /// One such receive, and how many bytes it brought: 0 at the end of the stream.
    async fn receive_direct(&mut self) -> Result<io::Result<usize>, String>;
}

/// Receives until the connection is gone, and gives the reason. `first` has come already.
pub(super) async fn receive<I: Intake>(socket: Socket, first: &[u8], intake: &mut I) -> String {
    match receive_all(socket, first, intake).await {
        Ok(Err(error)) => format!("the connection broke: {error}"),
        Ok(Ok(())) if intake.is_leaving() => "the session was closed".to_owned(),
        Ok(Ok(())) => format!("the {} closed the connection", I::PEER),
        Err(violation) => format!("the connection was given up because of the {}: {violation}", I::PEER),
    }
}

/// Receives until the end of the stream, or until it breaks.
async fn receive_all(
    socket: Socket,
    first: &[u8],
    intake: &mut impl Intake,
) -> Result<io::Result<()>, String> {
    intake.take_in(first)?;
    let mut inflow = Inflow::new(socket);
    loop {
        let is_direct = intake.is_direct()?;
        let received = if is_direct { inflow.rest().await } else { inflow.next().await.map(Some) };
        let count = match received {
            Ok(Some(chunk)) => {
                if intake.take_in(&chunk)? > 1 {
                    inflow.several();
                }
                Ok(chunk.len())
            }
            Ok(None) => intake.receive_direct().await?,
            Err(error) => Err(error),
        };
        match count {
            Ok(0) => return Ok(Ok(())),
            Ok(_) => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}
