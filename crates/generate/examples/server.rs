//! A server that generates text for several clients at the same time.
//!
//! ```sh
//! cargo run --release -p generate --example server MODEL [ADDRESS]
//! ```
//!
//! `MODEL` is the folder of a model that uses GPT-2's vocabulary. `ADDRESS` is the address to
//! listen on, `127.0.0.1:7878` by default. To try the server, run `nc localhost 7878` in two
//! terminals.
//!
//! Each connection is a session with its own text. When a client sends a line, the server appends
//! the line to the session's text and continues the text until the model generates a line break,
//! but by at most 50 tokens.
//!
//! A single thread generates the tokens of all sessions. In each step, it computes the next token
//! of every text at once, so it reads the weights only once per step. In addition, each connection
//! has its own thread, which waits for lines from the client. While a session waits, it stores only
//! its text and the KV cache of this text.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use checkpoint::ModelFolder;
use generate::torch_rng::TorchRng;
use generate::{
    DecoderState, DecoderWeights, Dtype, GenerateError, GenerateOptions, StreamEvent, TokenStreams,
};
use tokenizer::{Gpt2Tokenizer, StreamingDecoder};

/// Maximum number of texts that are continued at the same time. Once this limit is reached, further
/// requests wait in the channel until one of the texts ends.
const MAX_TEXTS: usize = 64;
/// IDs of the tokens in GPT-2's vocabulary that end a line: `\n`, `\n\n` and `<|endoftext|>`.
const END_OF_LINE: [u32; 3] = [198, 628, 50256];

/// A reply to a [`Request`]. It is either an event (a new token or the end of the text), or an
/// error if the text couldn't be added to the [`TokenStreams`].
type Reply = Result<StreamEvent, GenerateError>;

/// A client's request, which is sent to the thread that generates the tokens. The thread appends
/// the tokens `ids` to the client's text, which is stored in `state`, and generates the
/// continuation of this text. It sends each new token and the end of the continuation through the
/// channel `session`.
struct Request {
    state: DecoderState,
    ids: Vec<u32>,
    seed: u64,
    session: Sender<Reply>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next();
    let folder = folder.ok_or("the folder of a model is missing: server MODEL [ADDRESS]")?;
    let address = arguments.next();
    let address = address.unwrap_or_else(|| "127.0.0.1:7878".into());
    let folder = ModelFolder::open(folder)?;
    let weights = DecoderWeights::read::<Box<dyn Error>>(
        &folder.config(),
        Dtype::Int8,
        |name, rows, out| Ok(folder.read_rows(name, rows, out)?),
    )?;
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);

    let (requests, received) = channel();
    thread::spawn(move || compute(weights, &received));
    for (seed, client) in listener.incoming().enumerate() {
        let (client, requests) = (client?, requests.clone());
        thread::spawn(move || {
            if let Err(error) = serve(&client, seed as u64, &requests) {
                eprintln!("session {seed} has ended: {error}");
            }
        });
    }
    Ok(())
}

/// Processes requests and generates the requested tokens. Returns when all texts have ended and no
/// more requests can arrive, because all senders have been dropped.
fn compute(weights: DecoderWeights, requests: &Receiver<Request>) {
    let mut streams = TokenStreams::new(weights);
    let mut sessions = BTreeMap::new();
    loop {
        // Before each step, add the texts of all requests that have arrived in the meantime, but
        // generate at most `MAX_TEXTS` texts at the same time. If no text is being generated, wait
        // for the next request.
        while streams.len() < MAX_TEXTS {
            let request = match streams.is_empty() {
                true => requests.recv().ok(),
                false => requests.try_recv().ok(),
            };
            let Some(Request {
                state,
                ids,
                seed,
                session,
            }) = request
            else {
                break;
            };
            let options = GenerateOptions {
                stop_ids: END_OF_LINE.to_vec(),
                ..GenerateOptions::default()
            };
            match streams.add(state, &ids, options, TorchRng::manual_seed(seed)) {
                Ok(slot) => drop(sessions.insert(slot, session)),
                Err(error) => drop(session.send(Err(error))),
            }
        }
        if streams.is_empty() {
            return;
        }
        for (slot, event) in streams.step() {
            let has_ended = matches!(event, StreamEvent::Ended(_));
            let is_gone = sessions[&slot].send(Ok(event)).is_err();
            if has_ended || is_gone {
                streams.remove(slot);
                sessions.remove(&slot);
            }
        }
    }
}

/// Reads lines from a client and sends back the generated continuation of each line. Returns when
/// the client closes the connection.
fn serve(client: &TcpStream, seed: u64, requests: &Sender<Request>) -> Result<(), Box<dyn Error>> {
    let tokenizer = Gpt2Tokenizer::new();
    let (mut state, mut client_output) = (DecoderState::default(), client);
    for line in BufReader::new(client).lines() {
        let mut text = StreamingDecoder::new(&tokenizer);
        let (session, replies) = channel();
        requests.send(Request {
            state: state.clone(), // the clone shares the cache
            ids: tokenizer.encode_ordinary(&line?),
            seed,
            session,
        })?;
        for reply in replies {
            match reply {
                Ok(StreamEvent::Token(id)) => write!(client_output, "{}", text.push(id)?)?,
                Ok(StreamEvent::Ended(ended)) => {
                    ended.reason?;
                    state = ended.state;
                    break;
                }
                Err(error) => write!(client_output, "error: {error}")?,
            }
        }
        writeln!(client_output, "{}", text.finish())?;
    }
    Ok(())
}
