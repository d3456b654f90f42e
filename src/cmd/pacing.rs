//! How fast requests are sent to the API server: as fast as it can take them, and no faster than a rate if one is set.
//!
//! Answers to `--kube-api-qps` and `--kube-api-burst` of Kubernetes' programs, which know nothing else.

use clap::Args;

use crate::act::pace::Rate;
use crate::act::{Metrics, Pace};

/// See the [module's documentation](self).
#[derive(Clone, Copy, Debug, Args)]
pub struct Pacing {
    /// Requests a second at most, lists, watches and the lease aside; 0 sets no rate: as many as the API server can take.
    #[arg(long, default_value_t = 0.0, value_parser = rate, env = "PVBIND_KUBE_API_QPS", value_name = "NUMBER")]
    kube_api_qps: f64,
    /// How many of them may come at once; 0 means as many as come in a second.
    #[arg(long, default_value_t = 0, env = "PVBIND_KUBE_API_BURST", value_name = "NUMBER")]
    kube_api_burst: u32,
}

impl Pacing {
    /// The pace of a process, shown in its metrics.
    pub(super) fn pace(&self, metrics: &Metrics) -> Pace {
        Pace::adaptive(self.rate(), metrics.clone())
    }

    fn rate(&self) -> Option<Rate> {
        let (qps, burst) = (self.kube_api_qps, self.kube_api_burst);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive and not large"
        )]
        let second = qps.ceil() as u32;
        (qps > 0.0).then_some(Rate { qps, burst: if burst == 0 { second } else { burst } })
    }
}

/// Reads a rate.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1e6).contains(rate) && (*rate == 0.0 || *rate >= 1e-3));
    rate.ok_or_else(|| format!("{text:?} is no rate; write requests a second, such as 50, or 0 for no limit"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        pacing: Pacing,
    }

    #[test]
    fn a_rate_as_users_write_it() {
        let read = |arguments: &[&str]| {
            let line = Line::try_parse_from(["controller"].iter().chain(arguments));
            line.map(|line| line.pacing.rate().map(|rate| (rate.qps, rate.burst))).ok()
        };
        assert_eq!(read(&[]), Some(None));
        assert_eq!(read(&["--kube-api-qps", "0"]), Some(None));
        assert_eq!(read(&["--kube-api-qps", "20"]), Some(Some((20.0, 20))));
        assert_eq!(read(&["--kube-api-qps", "0.5", "--kube-api-burst", "30"]), Some(Some((0.5, 30))));
        for bad in ["-1", "many", "NaN", "inf", "1e-9"] {
            assert_eq!(read(&["--kube-api-qps", bad]), None, "{bad}");
        }
    }
}
