//! Decides how requests come in and answers go out over HTTP. Never looks into a body. Answers to the HTTP
//! half of `k8s.io/apiserver/pkg/server`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, Limited};

use crate::answer::{Answer, Content};
use crate::auth::{self, User};
use crate::compress::compressed;
use crate::present;
use crate::request::Request;
use crate::server::Server;
use crate::status::Status;

/// The largest body that is read, as in the real server.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

pub(crate) fn router(server: Arc<Server>) -> Router {
    let answer =
        |State(server): State<Arc<Server>>, request: axum::extract::Request| respond(server, request);
    Router::new().fallback(answer).with_state(server)
}

/// Reads a request, has it answered, and writes the answer.
pub(crate) async fn respond(server: Arc<Server>, request: axum::extract::Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let text = |name: HeaderName| header_text(&parts.headers, name);
    let path_and_query = parts.uri.path_and_query().map_or("/", ::http::uri::PathAndQuery::as_str);
    let method = parts.method.as_str();
    let request = Request::new(method, path_and_query, text(header::CONTENT_TYPE), Bytes::new());
    let mut request = request.accepting(text(header::ACCEPT)).by(text(header::USER_AGENT));
    text(header::IF_NONE_MATCH).clone_into(&mut request.none_match);
    let certified = parts.extensions.get::<Arc<User>>();
    let known = auth::authenticate(&server, text(header::AUTHORIZATION), certified);
    let headers =
        parts.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()));
    match known.and_then(|user| auth::impersonate::user(headers, user)) {
        Ok(user) => request.user = user,
        Err(status) => return response(present::refusal(&request, &status)),
    }
    let Ok(body) = Limited::new(body, LARGEST_BODY).collect().await else {
        let message = format!("Request entity too large: limit is {LARGEST_BODY}");
        let status = Status::new(413, "RequestEntityTooLarge", message);
        return response(present::refusal(&request, &status));
    };
    request.body = body.to_bytes();
    let Ok(answer) = server.answer(&request).await else { return lost() };
    response(compressed(&request.path, text(header::ACCEPT_ENCODING), answer).await)
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// An answer of which nothing arrives: the connection goes with it.
fn lost() -> Response<Body> {
    Response::new(Body::new(Broken))
}

/// A body that fails before it says anything.
struct Broken;

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
    }
}

/// An answer as HTTP has it.
pub(crate) fn response(answer: Answer) -> Response<Body> {
    let body = match answer.content {
        Content::Ready(body) => Body::from(body),
        Content::Watch(body) => Body::new(*body),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    for warning in answer.warnings {
        if let Ok(warning) = HeaderValue::from_str(&warning) {
            response.headers_mut().append(header::WARNING, warning);
        }
    }
    response
}
